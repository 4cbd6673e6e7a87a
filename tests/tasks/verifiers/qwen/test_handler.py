import pytest

pytest.importorskip("sympy")

from dph.records import Outcome
from dph.tasks.verifiers.qwen.equality import QwenGrader, qwen_gold


@pytest.mark.parametrize(
    ("response", "gold", "outcome"),
    [
        (r"\boxed{\frac12}", "0.5", Outcome.CORRECT),
        (r"\boxed{500}", "5", Outcome.CORRECT),
        (r"\boxed{6}", "5", Outcome.WRONG),
        ("nothing", "5", Outcome.NO_ANSWER),
        ("the answer is " + "1 " * 20_000, "5", Outcome.OVER_LIMIT),
    ],
)
def test_a_response_is_graded(response, gold, outcome):
    assert QwenGrader()({"response": response, "gold": gold}, lambda _: None)[0] == outcome


def test_a_boxed_gold_is_found():
    assert qwen_gold(r"thus $\boxed{x=5}$") == "5"


def test_what_sympy_raises_is_invalid_and_no_error(monkeypatch):
    def fail(*_):
        raise RecursionError("too deep")

    monkeypatch.setattr("dph.tasks.verifiers.qwen.equality.qwen_equal", fail)
    verdict = QwenGrader()({"response": r"\boxed{x+9}", "gold": "x+8"}, lambda _: None)
    assert verdict == (Outcome.INVALID, 0.0, "RecursionError: too deep")
