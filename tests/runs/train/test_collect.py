import pytest

from dph.errors import TrainingError
from dph.model.sampler.graded import Rollout
from dph.recipe import ObjectiveSettings, TrainingSettings
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.runs.train.collect import collect
from dph.runs.train.rows import Position

RIGHT, WRONG, BAD, CRASHED = (
    Verdict(outcome=Outcome.CORRECT, reward=1.0),
    Verdict(outcome=Outcome.WRONG, reward=0.0),
    Verdict(outcome=Outcome.BAD_GOLD, reward=0.0, reason="no such table: pet"),
    Verdict(outcome=Outcome.CRASHED, reward=0.0),
)


def completion(problem, index):
    return Completion(
        problem_id=problem.problem_id,
        sample_index=index,
        token_ids=(1,),
        logprobs=(-1.0,),
        finished=True,
        text="",
    )


def drawer(verdicts):
    """A sampler whose answers to a problem get the verdicts that ``verdicts`` has for its id."""

    def draw(problems, *, samples, seed):  # noqa: ARG001
        return Rollout(
            problems=tuple(problems),
            prompts=tuple((1,) for _ in problems),
            groups=tuple(
                tuple(
                    GradedCompletion(completion=completion(problem, i), verdict=verdict)
                    for i, verdict in enumerate(verdicts[problem.problem_id][:samples])
                )
                for problem in problems
            ),
            sampling_seconds=0.0,
            grading_seconds=0.0,
        )

    return draw


def collected(verdicts, *, wanted, **objective):
    problems = [Problem(problem_id=name, prompt="") for name in verdicts]
    return collect(
        problems,
        drawer(verdicts),
        Position(),
        step=1,
        seed=0,
        train=TrainingSettings(problems_per_step=wanted, samples_per_problem=2, minibatches=1),
        objective=ObjectiveSettings(**objective),
    )


def names(groups):
    return {group.completions[0].completion.problem_id for group in groups}


def test_a_group_with_an_ungradable_gold_is_drawn_and_left_out():
    found = collected({"a": [RIGHT, WRONG], "b": [RIGHT, BAD], "c": [WRONG, WRONG]}, wanted=3)
    assert names(found.drawn) == {"a", "b", "c"}
    assert names(found.groups) == {"a", "c"}


def test_dynamic_sampling_counts_no_signal_that_a_crash_or_a_bad_gold_pretends():
    verdicts = {"a": [RIGHT, WRONG], "b": [RIGHT, BAD], "c": [RIGHT, CRASHED]}
    found = collected(verdicts, wanted=3, dynamic_sampling=True, max_refills=2)
    assert names(found.groups) == {"a"}


def test_where_every_gold_is_ungradable_more_problems_are_drawn():
    verdicts = {"bad": [BAD, BAD], "good": [RIGHT, WRONG]}
    found = collected(verdicts, wanted=1)
    assert names(found.groups) == {"good"}


def test_a_step_in_which_no_gold_can_be_graded_says_why():
    with pytest.raises(TrainingError, match=r"no gold answer of \d+ groups .*no such table: pet"):
        collected({"a": [BAD, BAD], "b": [BAD, BAD]}, wanted=2)
