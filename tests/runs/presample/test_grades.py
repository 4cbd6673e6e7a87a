import pytest

from dph.records import Outcome
from dph.runs.presample.diagnosis import Ungradable, read_grades, ungradable_outcome
from dph.runs.presample.pool import load_pool
from dph.runs.presample.presample import partition
from dph.runs.presample.tables import graded_table

BAD, CRASHED = Outcome.BAD_GOLD, Outcome.CRASHED


@pytest.fixture
def pool_with(pool_of, tmp_path):
    """Pre-sample the letter task with other outcomes for some problems."""

    def run(outcomes):
        pool_of(tmp_path / "pool", outcomes=outcomes)
        return load_pool(tmp_path / "pool")

    return run


def test_problems_that_cannot_be_graded_are_listed_and_neither_explored_nor_rehearsed(
    pool_with, caplog
):
    pool = pool_with({"3": BAD, "5": CRASHED})
    counts = pool.manifest.counts
    assert counts.ungradable == 2
    assert counts.exploration + counts.rehearsal + counts.discarded == 22
    assert sum(counts.histogram) == 22
    assert sum(counts.outcomes.values()) == 24 * 5
    assert 1 <= counts.outcomes["BAD_GOLD"] <= 5
    left = {p.problem_id for p in pool.exploration} | {s.problem_id for s in pool.rehearsal}
    assert not left & {"3", "5"}
    assert pool.ungradable == (
        Ungradable(problem_id="3", outcome=BAD, reason="no such table"),
        Ungradable(problem_id="5", outcome=CRASHED, reason="no such table"),
    )
    assert "problem(s) left out: the gold answer cannot be graded, for example '3'" in caplog.text


@pytest.mark.parametrize(
    ("outcomes", "why"),
    [
        ({"BAD_GOLD": 9}, BAD),
        ({"CORRECT": 8, "BAD_GOLD": 1}, BAD),  # about the problem, whichever answer found out
        ({"CRASHED": 9}, CRASHED),
        ({"CRASHED": 2, "CUT_OFF": 7}, CRASHED),  # none of those that were graded has a verdict
        ({"CRASHED": 8, "WRONG": 1}, None),
        ({"CRASHED": 8, "NO_ANSWER": 1}, None),
        ({"TIMED_OUT": 9}, None),  # the answer's fault, which the verifier says by this outcome
        ({"CUT_OFF": 9}, None),
    ],
)
def test_one_bad_gold_is_enough_but_a_crash_has_to_be_every_graded_answers(outcomes, why):
    assert ungradable_outcome(outcomes) is why


def test_a_problem_without_a_verdict_is_ungradable_however_often_it_was_solved():
    split = partition(
        {"a": 8, "b": 0, "c": 1},
        {"a": True, "b": False, "c": True},
        threshold=7,
        wrong_final="explore",
        ungradable={"a", "b"},
    )
    assert (split.ungradable, split.exploration, split.rehearsal) == (("a", "b"), ("c",), ())


def test_grades_count_the_deciding_samples_apart_from_the_final_one(
    make_model, make_draw, problems
):
    rollout = make_draw(make_model())(problems, samples=5, seed=0)
    grades = read_grades(problems, [graded_table(rollout.groups)], 4)
    for problem, group in zip(problems, rollout.groups, strict=True):
        right = [graded.verdict.outcome == Outcome.CORRECT for graded in group]
        assert grades.correct[problem.problem_id] == sum(right[:4])
        assert grades.final_correct[problem.problem_id] == right[4]
