import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.results.diagnosis.changes import Change, could_be_lost, problem_changes, smallest_rates
from results.diagnosis.models import scores_of, scores_with


def changes(before, after, samples=16, level=0.05):
    return problem_changes(
        scores_with(after, samples),
        scores_with(before, samples),
        lost_level=level,
        gained_level=level,
    )


def test_each_problem_is_what_its_two_counts_say():
    found = changes([16, 0, 9, 2, 0, 0], [0, 16, 8, 0, 1, 0])
    assert [one.change for one in found] == [
        *(Change.LOST, Change.GAINED, Change.KEPT),
        *(Change.UNDECIDED, Change.UNDECIDED, Change.UNSOLVED),
    ]
    first = found[0]
    assert (first.baseline_correct, first.correct) == (16, 0)
    assert first.difference.mean == -1
    assert first.p_lost == pytest.approx(1 / 601_080_390)  # 1 / C(32, 16)
    assert first.p_gained == 1


def test_a_gain_is_a_loss_with_the_two_models_exchanged():
    before, after = [16, 3, 8, 0], [1, 12, 8, 0]
    forward, backward = changes(before, after), changes(after, before)
    for one, other in zip(forward, backward, strict=True):
        assert (one.p_lost, one.q_lost) == (other.p_gained, other.q_gained)
        assert (one.change is Change.LOST) == (other.change is Change.GAINED)


def test_draws_of_different_sizes_are_compared():
    (found,) = problem_changes(
        scores_with([0], 8), scores_with([30], 32), lost_level=0.05, gained_level=0.05
    )
    assert found.change is Change.LOST
    assert (found.baseline_samples, found.samples) == (32, 8)


def test_the_smallest_rates_are_those_of_the_lists():
    before, after = [16, 3, 8, 0], [1, 12, 8, 0]
    found = changes(before, after)
    lost, gained = smallest_rates(scores_with(after, 16), scores_with(before, 16))
    assert lost == min(one.q_lost for one in found)
    assert gained == min(one.q_gained for one in found)


def test_the_lost_are_among_those_that_could_be_and_the_rarely_solved_are_not():
    found = changes([16, 15, 14, 3, 0], [0, 1, 14, 3, 0])
    could = could_be_lost(found, level=0.05)
    assert could[[one.change is Change.LOST for one in found]].all()
    assert could.tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("solved", range(9))
def test_a_problem_could_be_lost_exactly_if_one_more_like_it_would_be(solved):
    before, after = [8, 8, 5, 5, 4, 3, solved], [0, 8, 5, 4, 4, 3, solved]
    found = changes(before, after, samples=8)
    with_one_more = changes([*before, solved], [*after, 0], samples=8)
    would_be = with_one_more[-1].change is Change.LOST
    assert could_be_lost(found, level=0.05)[-1] == would_be


def test_where_nothing_is_lost_nothing_could_be():
    assert not could_be_lost(changes([8, 8], [8, 8]), level=0.05).any()


def test_other_problems_and_impossible_levels_are_refused():
    with pytest.raises(DataError, match="cannot be compared"):
        problem_changes(
            scores_of(np.ones((2, 4))), scores_of(np.ones((3, 4))), lost_level=0.1, gained_level=0.1
        )
    with pytest.raises(SettingsError, match="between 0 and 1, got 1"):
        changes([1], [1], level=1)
