from itertools import product
from math import comb

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.results.diagnosis.changes import (
    Change,
    adjusted_p_values,
    could_be_lost,
    fallen,
    list_level,
    problem_changes,
    smallest_rates,
    wilson,
)
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


def test_a_gain_is_a_loss_with_the_models_exchanged_and_the_smallest_rates_are_the_lists():
    before, after = [16, 3, 8, 0], [1, 12, 8, 0]
    forward, backward = changes(before, after), changes(after, before)
    for one, other in zip(forward, backward, strict=True):
        assert (one.p_lost, one.q_lost) == (other.p_gained, other.q_gained)
        assert (one.change is Change.LOST) == (other.change is Change.GAINED)
    lost, gained = smallest_rates(scores_with(after, 16), scores_with(before, 16))
    assert lost == min(one.q_lost for one in forward)
    assert gained == min(one.q_gained for one in forward)


def test_draws_of_different_sizes_are_compared():
    (found,) = problem_changes(
        scores_with([0], 8), scores_with([30], 32), lost_level=0.05, gained_level=0.05
    )
    assert found.change is Change.LOST
    assert (found.baseline_samples, found.samples) == (32, 8)


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


def test_what_cannot_be_compared_does_not_fit_or_is_no_share_is_refused():
    with pytest.raises(DataError, match="cannot be compared"):
        problem_changes(
            scores_of(np.ones((2, 4))), scores_of(np.ones((3, 4))), lost_level=0.1, gained_level=0.1
        )
    with pytest.raises(SettingsError, match="between 0 and 1, got 1"):
        changes([1], [1], level=1)
    with pytest.raises(DataError, match="do not fit"):
        adjusted_p_values(np.array([0.1]), np.array([0, 0]), [GRID])
    with pytest.raises(DataError, match=r"lie in \[0, 1\]"):
        adjusted_p_values(np.array([1.1]), np.array([0]), [GRID])
    with pytest.raises(DataError, match="got 0 of 0"):
        wilson(0, 0)
    with pytest.raises(DataError, match="got 3 of 2"):
        wilson(3, 2)


GRID = np.arange(1, 10_001) / 10_000


def named_by_definition(p_values, supports, level):
    """[AHSD] as it is defined: step down while the k-th p-value is below its critical value."""
    m, order = len(p_values), np.argsort(p_values, kind="stable")
    candidates = np.unique(np.concatenate(supports))

    def reached(support, t):
        return max((x for x in support if x <= t), default=0.0)

    def allowed(t, k):
        at = [reached(support, t) for support in supports]
        if max(at) >= 1:
            return False
        odds = sorted((f / (1 - f) for f in at), reverse=True)
        return sum(odds[: m - k + 1]) <= level * k

    named = np.zeros(m, dtype=bool)
    for k, i in enumerate(order, 1):
        critical = max((t for t in candidates if allowed(t, k)), default=-1.0)
        if p_values[i] > critical:
            break
        named[i] = True
    return named


@pytest.mark.parametrize("seed", range(20))
def test_a_test_is_named_at_a_level_exactly_if_its_adjusted_p_value_is_at_most_that(seed):
    rng = np.random.default_rng(seed)
    supports = [np.unique([*rng.random(rng.integers(1, 5)) ** 2, 1.0]) for _ in range(6)]
    p_values = np.array([rng.choice(support) for support in supports])
    adjusted = adjusted_p_values(p_values, np.arange(6), supports)
    for level in (0.01, 0.05, 0.2, 0.5):
        np.testing.assert_array_equal(
            adjusted <= level, named_by_definition(p_values, supports, level)
        )


def test_with_continuous_tests_it_is_the_procedure_of_gavrilov_benjamini_and_sarkar():
    m, level = 5, 0.1
    critical = [k * level / (m + 1 - k * (1 - level)) for k in range(1, m + 1)]
    below = np.floor(np.array(critical) * 10_000) / 10_000  # on the grid
    assert (adjusted_p_values(below, np.zeros(m, dtype=int), [GRID]) <= level).all()
    first = np.array([below[0] + 1e-4, *below[1:]])
    above = adjusted_p_values(first, np.zeros(m, dtype=int), [GRID])
    assert above[0] > level or first[0] <= critical[0]


def test_a_problem_that_no_loss_can_show_of_costs_nothing():
    """A hundred problems that were never solved change nothing for the three that were."""
    before, after = np.array([8, 8, 7]), np.array([0, 8, 7])
    alone = fallen(before, 8, after, 8)[1]
    padded = fallen(
        np.concatenate([before, np.zeros(100, int)]),
        8,
        np.concatenate([after, np.zeros(100, int)]),
        8,
    )[1]
    np.testing.assert_array_equal(padded[:3], alone)
    assert (padded[3:] == 1).all()


@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
def test_where_nothing_was_lost_anything_is_named_with_a_chance_of_at_most_the_level(p):
    """Exact: every outcome of three problems with four answers before and after, weighed."""
    n = 4
    binomial = np.array([comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])
    pairs = list(product(range(n + 1), repeat=2))
    levels = np.array([0.05, 0.2, 0.4])
    chance = np.zeros(3)
    for three in product(range(len(pairs)), repeat=3):
        if list(three) != sorted(three):
            continue  # problems are alike: once each, times the orders
        orders = {1: 1, 2: 3, 3: 6}[len(set(three))]
        before, after = np.array([pairs[i] for i in three]).T
        named = fallen(before, n, after, n)[1].min() <= levels
        chance[named] += orders * (binomial[before] * binomial[after]).prod()
    assert (chance <= levels).all()


def test_equal_p_values_are_named_together():
    rng = np.random.default_rng(0)
    before, after = rng.integers(0, 9, 200), rng.integers(0, 9, 200)
    p_values, adjusted = fallen(before, 8, after, 8)
    for p in np.unique(p_values):
        assert len(set(adjusted[p_values == p])) == 1
    assert (np.diff(adjusted[np.argsort(p_values)]) >= 0).all()


@pytest.mark.parametrize(("count", "of"), [(0, 16), (3, 16), (16, 16), (500, 1000)])
def test_wilsons_limits_are_the_shares_that_a_score_test_just_does_not_refuse(count, of):
    z = 1.959963984540054
    for limit in wilson(count, of):
        if 0 < limit < 1:
            assert abs(count / of - limit) == pytest.approx(z * np.sqrt(limit * (1 - limit) / of))


@pytest.mark.parametrize("seed", range(10))
def test_the_level_of_the_lists_is_that_of_the_sets_that_benjamini_and_hochberg_select(seed):
    smallest = np.random.default_rng(seed).random(8) ** 4
    level = list_level(smallest, 0.1)
    selected = (smallest <= level).sum()
    assert level == pytest.approx(0.1 * max(1, selected) / 8)
    larger = [0.1 * rank / 8 for rank in range(int(selected) + 1, 9)]
    assert all((smallest <= bound).sum() < round(bound * 80) for bound in larger)


def test_of_sets_where_nothing_happened_one_is_selected_no_more_often_than_the_level():
    rng = np.random.default_rng(0)
    named = [(p := rng.random(5)).min() <= list_level(p, 0.1) for _ in range(4000)]
    assert np.mean(named) == pytest.approx(0.1, abs=3 * (0.1 * 0.9 / 4000) ** 0.5)
