import numpy as np
import pytest

from dph.errors import SettingsError
from dph.results.diagnosis.styles import paired_style_counts, smallest_rate, style_changes
from results.diagnosis.models import a_model, counts_of, drawn_counts, samples_of, scores_of

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


def died(model, baseline, **settings):
    found = style_changes(model, baseline, **{"level": 0.05, **settings})
    return [one.style for one in found if one.died]


def halves(problems, a, b, styles=("x", "y")):
    answers = np.tile([a, b], (problems, 1))
    return counts_of(answers, answers // 2, styles)


def test_a_style_died_if_a_tenth_of_its_share_is_left_and_answers_without_one_never_do():
    assert died(halves(20, 0, 8), halves(20, 4, 4)) == ["x"]
    before = halves(20, 4, 4)
    after = halves(20, 0, 8)
    after.answers[:9] = [1, 7]  # 9 answers of 80 before
    assert died(after, before) == []
    assert died(after, before, died=0.2) == ["x"]
    assert died(halves(20, 0, 8, (None, "y")), halves(20, 4, 4, (None, "y"))) == []


def test_a_style_that_was_hardly_there_has_not_died_by_chance():
    before, after = halves(20, 0, 8), halves(20, 0, 8)
    before.answers[:3] = [1, 7]  # three answers, and none of them: 1/2^3 of all deals
    (x, _) = style_changes(after, before, level=0.05)
    assert x.p_value == pytest.approx(1 / 8)
    assert not x.died
    assert smallest_rate(after, before) == pytest.approx(2 / 8)


def test_shares_and_right_answers_are_of_all_answers():
    (x, y) = style_changes(halves(5, 0, 8), halves(5, 6, 2), level=0.05)
    assert (x.baseline_share, x.share, x.baseline_correct, x.correct) == (0.75, 0, 0.5, None)
    assert (y.baseline_share, y.share, y.correct) == (0.25, 1, 0.5)


def test_of_two_draws_of_one_model_no_style_dies():
    model = a_model(60)
    rates = [
        smallest_rate(drawn_counts(model, 8, 2 * seed), drawn_counts(model, 8, 2 * seed + 1))
        for seed in range(100)
    ]
    # At 5% it is 5 of 100 with a standard deviation of 2.2.
    assert sum(rate <= 0.05 for rate in rates) <= 11


def test_a_part_that_is_no_part_is_refused():
    with pytest.raises(SettingsError, match="got 1"):
        died(halves(2, 4, 4), halves(2, 4, 4), died=1)
