import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from dph.records import Outcome, Verdict
from dph.tasks.verifiers.function import FunctionGrader, as_verdict, make_function_grader


@pytest.mark.parametrize(
    ("value", "outcome", "reward"),
    [
        (True, Outcome.CORRECT, 1.0),
        (False, Outcome.WRONG, 0.0),
        (1, Outcome.CORRECT, 1.0),
        (0.25, Outcome.WRONG, 0.25),
        (Fraction(1, 2), Outcome.WRONG, 0.5),
        (np.float32(0.5), Outcome.WRONG, 0.5),
        (np.True_, Outcome.CORRECT, 1.0),
        (np.False_, Outcome.WRONG, 0.0),
        (np.int64(1), Outcome.CORRECT, 1.0),
        (np.float16(0.25), Outcome.WRONG, 0.25),
        (np.array(1.0), Outcome.CORRECT, 1.0),
        (torch.tensor(True), Outcome.CORRECT, 1.0),
        (torch.tensor(0.5), Outcome.WRONG, 0.5),
        (Decimal("0.5"), Outcome.WRONG, 0.5),
    ],
)
def test_bools_and_numbers_become_verdicts(value, outcome, reward):
    verdict = as_verdict(value)
    assert (verdict.outcome, verdict.reward) == (outcome, reward)
    assert (verdict.reason == "") == (outcome is Outcome.CORRECT)


def test_a_verdict_stays_as_it_is():
    verdict = Verdict(outcome=Outcome.OVER_LIMIT, reward=0.5, reason="why")
    assert as_verdict(verdict) is verdict


def test_a_wrong_verdict_without_a_reason_says_so():
    verdict = as_verdict(Verdict(outcome=Outcome.WRONG, reward=0.0))
    assert verdict.reason == "the function returned WRONG without a reason"


@pytest.mark.parametrize(
    "value", [None, "1", [1], 1j, object(), np.array([1.0, 0.0]), np.str_("1"), np.complex64(1)]
)
def test_anything_else_is_refused(value):
    with pytest.raises(TypeError, match="a bool, a number in"):
        as_verdict(value)


@pytest.mark.parametrize(
    "value", [-0.1, 1.1, float("nan"), float("inf"), 2, np.int64(2), np.float32("nan"), 10**400]
)
def test_a_number_outside_the_range_is_refused(value):
    with pytest.raises(ValueError, match="must lie in"):
        as_verdict(value)


def test_the_grader_gives_the_function_a_problem(user_module):
    name = user_module("def f(r, p):\n    return (r, p.prompt, p.answer['a']) == ('r', ({},), 1)")
    grader = make_function_grader({"path": f"{name}:f"})
    request = {"response": "r", "problem_id": "p", "prompt": [{}], "answer": {"a": 1}}
    assert grader(request, print) == ("CORRECT", 1.0, "")
    assert grader(request | {"prompt": "text"}, print)[:2] == ("WRONG", 0.0)


def test_a_worker_takes_scalars_without_importing_numpy():
    code = (
        "import sys; from dph.tasks.verifiers.function import as_verdict; as_verdict(True);"
        "as_verdict(0.5); print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def of_trl(completions, solution, **columns):
    assert columns["prompts"] == ["2 + 2?"]
    assert columns["problem_id"] == ["p"]
    return [
        1.0 if said == right else 0.25 for said, right in zip(completions, solution, strict=True)
    ]


def of_trl_in_a_chat(prompts, completions, solution):
    assert prompts[0][-1]["content"] == "2 + 2?"
    contents = [completion[0]["content"] for completion in completions]
    return [float(said == right) for said, right in zip(contents, solution, strict=True)]


@pytest.mark.parametrize(
    ("function", "prompt"),
    [(of_trl, "2 + 2?"), (of_trl_in_a_chat, [{"role": "user", "content": "2 + 2?"}])],
)
def test_a_reward_function_of_trl_is_called_with_lists_of_one(function, prompt):
    grade = FunctionGrader(function)
    request = {"problem_id": "p", "prompt": prompt, "answer": {"solution": "4"}}
    assert grade({**request, "response": "4"}, None) == (Outcome.CORRECT, 1.0, "")
    outcome, reward, _ = grade({**request, "response": "5"}, None)
    assert (outcome, reward) == (Outcome.WRONG, 0.25 if function is of_trl else 0.0)
    lacking = {**request, "answer": {}, "response": "4"}
    outcome, _, reason = grade(lacking, None)
    assert outcome is Outcome.CRASHED
    assert "missing 1 required positional argument: 'solution'" in reason


@pytest.mark.parametrize("returned", [1.0, [], [1.0, 0.0], None])
def test_a_reward_function_that_does_not_return_one_number_crashed(returned):
    request = {"problem_id": "p", "prompt": "?", "answer": {}, "response": "4"}

    def reward(completions):
        return returned if completions == ["4"] else completions

    outcome, _, reason = FunctionGrader(reward)(request, None)
    assert outcome is Outcome.CRASHED
    assert "gets one completion and returned" in reason
