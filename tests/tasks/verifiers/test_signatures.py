"""Reward functions of other trainers are called as these call them."""

import pytest

from dph.records import Problem
from dph.tasks.verifiers.function import RewardFunction, Signature, signature_of

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
