import pytest

from dph.errors import TrainingError
from dph.records import Outcome
from dph.runs.train.collect import uniform_outcomes
from loop_parts import collected, graded, group_of, rollout_of

RIGHT, WRONG, BAD, CRASHED = (
    graded(outcome, reason="no such table: pet")
    for outcome in (Outcome.CORRECT, Outcome.WRONG, Outcome.BAD_GOLD, Outcome.CRASHED)
)
HALF = graded(Outcome.WRONG, reward=0.5)


def drawn_and_kept(answers, *, wanted, **objective):
    """Problems of a step's groups; ``answers`` are those to each problem's id."""

    def draw(problems, **_):
        return rollout_of(problems, [answers[problem.problem_id] for problem in problems])

    found = collected(draw, names=answers, wanted=wanted, samples=2, **objective)
    names = {id(group): name for name, group in answers.items()}
    return [
        "".join(sorted({names[id(g.completions)] for g in part}))
        for part in (found.drawn, found.groups)
    ]


def test_ungradable_golds_are_left_out_replaced_and_told_where_there_are_no_others():
    answers = {"a": (RIGHT, WRONG), "b": (RIGHT, BAD), "c": (WRONG, WRONG)}
    assert drawn_and_kept(answers, wanted=3) == ["abc", "ac"]
    assert drawn_and_kept({"b": (BAD, BAD), "g": (RIGHT, WRONG)}, wanted=1)[1] == "g"
    with pytest.raises(TrainingError, match=r"no gold answer of \d+ groups .*no such table: pet"):
        drawn_and_kept({"a": (BAD, BAD), "b": (BAD, BAD)}, wanted=2)


def test_dynamic_sampling_counts_no_signal_that_a_crash_or_a_bad_gold_pretends():
    answers = {"a": (RIGHT, WRONG), "b": (RIGHT, BAD), "c": (RIGHT, CRASHED)}
    assert drawn_and_kept(answers, wanted=3, dynamic_sampling=True, max_refills=2)[1] == "a"


@pytest.mark.parametrize("outcome", Outcome)
def test_one_outcome_for_all_answers_is_named_with_what_to_look_at(outcome):
    answer = graded(outcome, reward=0.0)
    said = uniform_outcomes([group_of(answer, answer)] * 3)
    assert said.startswith(f"all 6 answers are {outcome.value}: ")
    assert len(said) > len(f"all 6 answers are {outcome.value}: ")


def test_groups_that_differ_alone_are_counted_and_what_differs_within_one_is_enough():
    right, wrong = group_of(RIGHT, RIGHT), group_of(WRONG, WRONG)
    assert "4 CORRECT, 2 WRONG" in uniform_outcomes([right, wrong, right])
    assert uniform_outcomes([group_of(RIGHT, RIGHT), group_of(RIGHT, WRONG)]) is None
    assert uniform_outcomes([group_of(WRONG, HALF)]) is None
