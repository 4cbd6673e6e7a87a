import pytest

from dph.records import Completion, GradedCompletion, Outcome, Verdict
from dph.runs.train.collect import Group, uniform_outcomes


def group(*ends):
    return Group(
        prompt_ids=(1,),
        completions=tuple(
            GradedCompletion(
                completion=Completion(
                    problem_id="p",
                    sample_index=i,
                    token_ids=(1,),
                    logprobs=(0.0,),
                    finished=True,
                    text="",
                ),
                verdict=Verdict(outcome=outcome, reward=reward),
            )
            for i, (outcome, reward) in enumerate(ends)
        ),
    )


RIGHT, WRONG = (Outcome.CORRECT, 1.0), (Outcome.WRONG, 0.0)


@pytest.mark.parametrize("outcome", Outcome)
def test_one_outcome_for_all_answers_is_named_with_what_to_look_at(outcome):
    said = uniform_outcomes([group((outcome, 0.0), (outcome, 0.0))] * 3)
    assert said.startswith(f"all 6 answers are {outcome.value}: ")
    assert len(said) > len(f"all 6 answers are {outcome.value}: ")


def test_groups_that_differ_from_each_other_alone_are_counted():
    said = uniform_outcomes([group(RIGHT, RIGHT), group(WRONG, WRONG), group(RIGHT, RIGHT)])
    assert "4 CORRECT, 2 WRONG" in said


def test_one_group_with_two_outcomes_is_enough_to_learn_from():
    assert uniform_outcomes([group(RIGHT, RIGHT), group(RIGHT, WRONG)]) is None


def test_partial_rewards_within_one_outcome_are_something_to_learn_from():
    assert uniform_outcomes([group(WRONG, (Outcome.WRONG, 0.5))]) is None
