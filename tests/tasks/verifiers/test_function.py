import importlib
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from dph.errors import SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers import FunctionVerifier, verifier_identity
from dph.tasks.verifiers.function import RewardFunction, Signature, as_verdict, signature_of

MODULE = """
    import os
    from decimal import Decimal
    from dph.records import Outcome, Verdict

    def grade(response, problem):
        print("graded", response)
        if response == "hang":
            while True:
                pass
        if response == "die":
            os._exit(1)
        if response == "invalid":
            return Verdict(outcome=Outcome.INVALID, reward=0.25, reason="a quarter")
        if response == "raise":
            raise ZeroDivisionError("by nought")
        if response == "recurse":
            return grade("recurse", problem)
        if response == "exit":
            raise SystemExit(3)
        if response == "prompt":
            return problem.prompt[0]["content"] == "hello"
        values = {"half": 0.5, "two": 2, "nan": float("nan"), "none": None, "text": "yes"}
        values["decimal"] = Decimal(3)
        if response in values:
            return values[response]
        return response == problem.answer["answer"]
"""

PROBLEM = Problem(
    problem_id="p 1",
    prompt=({"role": "user", "content": "hello"},),
    answer={"answer": "right", "extra": [1, None]},
)


@pytest.fixture
def path(user_module):
    return f"{user_module(MODULE)}:grade"


@pytest.fixture
def verifier(path):
    with FunctionVerifier(path, timeout=1.0) as verifier:
        yield verifier


def test_the_function_gets_response_and_problem_and_decides(verifier, path):
    responses = ["right", "wrong", "half", "invalid", "prompt"]
    assert verifier.grade([PROBLEM] * 5, responses) == [
        Verdict(outcome=Outcome.CORRECT, reward=1.0),
        Verdict(outcome=Outcome.WRONG, reward=0.0, reason="the function returned False"),
        Verdict(outcome=Outcome.WRONG, reward=0.5, reason="partial reward 0.5"),
        Verdict(outcome=Outcome.INVALID, reward=0.25, reason="a quarter"),
        Verdict(outcome=Outcome.CORRECT, reward=1.0),
    ]
    assert verifier.name == path


@pytest.mark.parametrize(("response", "outcome"), [("hang", "TIMED_OUT"), ("die", "CRASHED")])
def test_a_function_that_never_returns_costs_only_its_own_answer(verifier, response, outcome):
    verdicts = verifier.grade([PROBLEM] * 3, ["right", response, "right"])
    assert [verdict.outcome for verdict in verdicts] == ["CORRECT", outcome, "CORRECT"]
    assert verdicts[1].reason


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ("raise", "ZeroDivisionError: by nought"),
        ("exit", "SystemExit: 3"),
        ("two", "it returned 2; a number must lie in [0, 1]"),
        ("nan", "it returned nan; a number must lie in [0, 1]"),
        ("decimal", "it returned Decimal('3')"),
        ("none", "it returned None (NoneType); a bool"),
        ("text", "it returned 'yes' (str); a bool"),
    ],
)
def test_a_function_that_raises_or_returns_no_verdict_costs_one_answer_and_says_why(
    verifier, response, words
):
    verdicts = verifier.grade([PROBLEM] * 3, ["right", response, "wrong"])
    assert [verdict.outcome for verdict in verdicts] == ["CORRECT", "CRASHED", "WRONG"]
    assert words in verdicts[1].reason
    assert verdicts[1].reward == 0.0


def test_the_traceback_of_a_crash_begins_with_the_users_function_and_is_bounded(verifier, path):
    (raised, deep) = verifier.grade([PROBLEM] * 2, ["raise", "recurse"])
    lines = raised.reason.splitlines()
    assert lines[0] == lines[-1] == "ZeroDivisionError: by nought"
    assert f'{path.partition(":")[0]}.py", line' in lines[2]
    assert "verifiers/function.py" not in raised.reason
    assert deep.reason.startswith("RecursionError")
    assert len(deep.reason) < 2000
    assert 'return grade("recurse", problem)' in deep.reason


def test_answers_that_are_not_json_are_an_error(verifier):
    problem = Problem(problem_id="p", prompt="?", answer={"answer": b"raw"})
    with pytest.raises(VerifierError, match="JSON"):
        verifier.grade([problem], ["x"])


def test_the_version_changes_with_the_file_of_the_function(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    versions = []
    for answer in ("True", "False", "True"):
        source = f"def grade(response, problem):\n    return {answer}\n"
        (tmp_path / "my_changing_grader.py").write_text(source)
        with FunctionVerifier("my_changing_grader:grade") as verifier:
            versions.append(verifier.version)
    assert versions[0] == versions[2] != versions[1]
    assert all(version.startswith("1 ") for version in versions)


def grade_long(response, problem):
    return len(response) > len(problem.answer["answer"])


class Graders:
    @staticmethod
    def never(response, problem):
        return not isinstance(response, str) and problem is not None

    def bound(self, response, problem):
        return self.never(response, problem)


def test_a_function_may_be_given_as_it_is(user_module):
    module = importlib.import_module(user_module("def f(r, p):\n    return r == 'a'"))
    with FunctionVerifier(module.f) as verifier, FunctionVerifier(f"{module.__name__}:f") as named:
        assert verifier_identity(verifier) == verifier_identity(named)
        assert verifier.source == Path(module.__file__)
        assert outcomes(verifier.grade([PROBLEM] * 2, ["a", "b"])) == ["CORRECT", "WRONG"]
    with FunctionVerifier(grade_long, timeout=30) as verifier:
        assert verifier.name == f"{__name__}:grade_long"
        assert outcomes(verifier.grade([PROBLEM] * 2, ["a", "longer"])) == ["WRONG", "CORRECT"]
    with FunctionVerifier(Graders.never, timeout=30) as verifier:
        assert outcomes(verifier.grade([PROBLEM], ["a"])) == ["WRONG"]


def outcomes(verdicts):
    return [verdict.outcome for verdict in verdicts]


def closure():
    def inner(response, problem):
        return response == problem

    return inner


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda response, problem: response == problem,
            "is a lambda, which other processes cannot",
        ),
        (closure(), "is a nested function"),
        (partial(grade_long), "has no import path"),
        (Graders(), "has no import path"),
        (Graders().bound, "can import a function only by the name that its module gives it"),
    ],
)
def test_a_function_that_no_other_process_can_import_is_refused(function, words):
    with pytest.raises(SettingsError, match=words):
        FunctionVerifier(function)


def run(script, cwd):
    return subprocess.run(
        [sys.executable, *script], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


SCRIPT = """
from dph.records import Problem
from dph.tasks.verifiers import FunctionVerifier

def grade(response, problem):
    return response == "a"

{guard}
    with FunctionVerifier(grade) as verifier:
        (verdict,) = verifier.grade([Problem(problem_id="p", prompt="?")], ["a"])
        print(verifier.name, verdict.outcome)
"""


def test_a_function_of_the_script_that_runs_is_found_by_the_scripts_name(tmp_path):
    (tmp_path / "my_script.py").write_text(SCRIPT.format(guard='if __name__ == "__main__":'))
    for script in (["my_script.py"], ["-m", "my_script"]):
        done = run(script, tmp_path)
        assert done.stdout == "my_script:grade CORRECT\n", done.stderr


def test_a_script_that_guards_nothing_and_the_prompt_are_refused(tmp_path):
    (tmp_path / "my_script.py").write_text(SCRIPT.format(guard="if True:"))
    done = run(["my_script.py"], tmp_path)
    assert done.returncode == 1
    assert "if __name__ == '__main__':" in done.stderr
    done = run(["-c", SCRIPT.format(guard="if True:")], tmp_path)
    assert done.returncode == 1
    assert "the prompt or a notebook, which other processes cannot import" in done.stderr


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


def test_a_verdict_stays_and_one_without_a_reason_gets_one():
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


PLAIN = Problem(problem_id="p", prompt="1 + 1?", answer={"answer": "2", "level": 3})
CHAT = Problem(problem_id="p", prompt=({"role": "user", "content": "1 + 1?"},), answer={})


def own(response, problem):
    return response, problem.answer["answer"]


def own_by_other_names(completion, problem):
    return completion, problem.answer["answer"]


def trl(prompts, completions, level, **columns):
    return [(prompts[0], completions[0], level[0], columns["answer"][0])]


async def trl_later(completions, **_):
    return [completions[0]]


def verl(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": (data_source, solution_str, ground_truth, extra_info), "length": 1}


def verifiers(completion, answer, state):
    return completion, answer, state["prompt"]


@pytest.mark.parametrize(
    ("function", "signature", "value"),
    [
        (own, Signature.DPH, ("two", "2")),
        (own_by_other_names, Signature.DPH, ("two", "2")),
        (trl, Signature.TRL, ("1 + 1?", "two", 3, "2")),
        (trl_later, Signature.TRL, "two"),
        (verl, Signature.VERL, ("", "two", "2", {})),
        (verifiers, Signature.VERIFIERS, ("two", "2", "1 + 1?")),
    ],
)
def test_a_function_gets_the_arguments_of_its_trainer(function, signature, value):
    assert signature_of(function) is signature
    assert RewardFunction(function)("two", PLAIN) == value


def test_a_function_of_verl_gets_the_rest_of_its_row():
    row = {"data_source": "gsm8k", "extra_info": {"index": 3}}
    for own in ({}, {"data_source": "own"}, {"extra_info": {"index": 4}}):
        answer = {"answer": "2", "verl_row": row, **own}
        value = RewardFunction(verl)("two", Problem(problem_id="p", prompt="?", answer=answer))
        assert value == ((row | own)["data_source"], "two", "2", (row | own)["extra_info"])


def contents(completions, **_):
    return [messages[0]["content"] for messages in completions]


def test_messages_are_given_for_a_prompt_of_messages_and_to_a_function_that_wants_them():
    assert RewardFunction(contents)("two", CHAT) == "two"
    function = RewardFunction(contents)
    assert [function("two", PLAIN), function("three", PLAIN)] == ["two", "three"]


def one_for_all(completions):
    return float(len(completions))


def needs(completions, gold):
    return [completions == gold]


def test_a_wrong_result_and_a_missing_column_are_named():
    with pytest.raises(TypeError, match=r"returned 1.0 for 1 completions; a list"):
        RewardFunction(one_for_all)("two", PLAIN)
    with pytest.raises(TypeError, match=r"TRL\) needs gold; given are answer, completions, level"):
        RewardFunction(needs)("two", PLAIN)


def test_a_batch_is_one_call_of_trl():
    def ranked(completions, **_):
        return [len(completions)] * len(completions)

    assert RewardFunction(ranked).batch(["a", "b"], PLAIN) == [2, 2]
    assert RewardFunction(own).batch(["a", "b"], PLAIN) == [("a", "2"), ("b", "2")]
