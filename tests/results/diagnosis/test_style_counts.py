import numpy as np

from dph.results.diagnosis.style_counts import paired_style_counts
from results.diagnosis.models import samples_of, scores_of

STYLE = np.array([[0, 0, 1], [1, 2, 2]])
RIGHT = np.array([[1, 0, 1], [0, 1, 1]], dtype=bool)


def test_answers_are_counted_by_problem_and_style_and_those_without_one_come_last():
    run = samples_of(STYLE, RIGHT, names=("b", None, "a"))
    baseline = samples_of(np.zeros((2, 3), int), RIGHT, names=("c",))
    mine, theirs = paired_style_counts(run, baseline, "dev", scores_of(RIGHT), samples=3)
    assert mine.styles == theirs.styles == ("a", "b", "c", None)
    np.testing.assert_array_equal(mine.answers, [[0, 2, 0, 1], [2, 0, 0, 1]])
    np.testing.assert_array_equal(mine.correct, [[0, 1, 0, 1], [2, 0, 0, 0]])
    np.testing.assert_array_equal(theirs.answers, [[0, 0, 3, 0], [0, 0, 3, 0]])
    assert mine.samples == 3


def test_only_the_first_samples_of_the_problems_asked_for_count():
    run = samples_of(STYLE, RIGHT)
    scores = scores_of(RIGHT[:1])
    mine, theirs = paired_style_counts(run, run, "dev", scores, samples=2)
    np.testing.assert_array_equal(mine.answers, [[2]])
    np.testing.assert_array_equal(theirs.correct, [[1]])
