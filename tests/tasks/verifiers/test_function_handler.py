import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from dph.records import Outcome, Verdict
from dph.tasks.verifiers.function import as_verdict, make_function_grader


@pytest.mark.parametrize(
    ("outcome", "cases"),
    [
        (Outcome.CORRECT, [(True, 1.0), (1, 1.0), (np.True_, 1.0), (np.int64(1), 1.0)]),
        (Outcome.CORRECT, [(np.array(1.0), 1.0), (torch.tensor(True), 1.0)]),
        (Outcome.WRONG, [(False, 0.0), (0.25, 0.25), (Fraction(1, 2), 0.5)]),
        (Outcome.WRONG, [(np.float32(0.5), 0.5), (np.False_, 0.0), (np.float16(0.25), 0.25)]),
        (Outcome.WRONG, [(torch.tensor(0.5), 0.5), (Decimal("0.5"), 0.5)]),
    ],
)
def test_bools_and_numbers_become_verdicts(outcome, cases):
    for value, reward in cases:
        verdict = as_verdict(value)
        assert (verdict.outcome, verdict.reward) == (outcome, reward)
        assert (verdict.reason == "") == (outcome is Outcome.CORRECT)


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ((None, "1", [1], 1j, object(), np.array([1.0, 0.0]), np.str_("1"), np.complex64(1)),
         TypeError, "a bool, a number in"),
        ((-0.1, 1.1, float("nan"), float("inf"), 2, np.int64(2), np.float32("nan"), 10**400),
         ValueError, "must lie in"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(values, error, words):
    for value in values:
        with pytest.raises(error, match=words):
            as_verdict(value)


def test_the_grader_gives_the_function_a_problem_and_a_verdict_stays(user_module):
    name = user_module("def f(r, p):\n    return (r, p.prompt, p.answer['a']) == ('r', ({},), 1)")
    grader = make_function_grader({"path": f"{name}:f"})
    request = {"response": "r", "problem_id": "p", "prompt": [{}], "answer": {"a": 1}}
    assert grader(request, print) == ("CORRECT", 1.0, "")
    assert grader(request | {"prompt": "text"}, print)[:2] == ("WRONG", 0.0)
    verdict = Verdict(outcome=Outcome.OVER_LIMIT, reward=0.5, reason="why")
    assert as_verdict(verdict) is verdict
    verdict = as_verdict(Verdict(outcome=Outcome.WRONG, reward=0.0))
    assert verdict.reason == "the function returned WRONG without a reason"


def test_a_worker_takes_scalars_without_importing_numpy():
    code = (
        "import sys; from dph.tasks.verifiers.function import as_verdict; as_verdict(True);"
        "as_verdict(0.5); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
