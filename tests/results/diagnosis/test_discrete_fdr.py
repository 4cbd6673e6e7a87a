from itertools import product
from math import comb

import numpy as np
import pytest

from dph.errors import DataError
from dph.results.diagnosis.changes import adjusted_p_values, fallen

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


@pytest.mark.parametrize("level", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
def test_where_nothing_was_lost_anything_is_named_with_a_chance_of_at_most_the_level(p, level):
    """Exact: every outcome of three problems with four answers before and after, weighed."""
    n = 4
    binomial = np.array([comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])
    pairs = list(product(range(n + 1), repeat=2))
    chance = 0.0
    for three in product(range(len(pairs)), repeat=3):
        if list(three) != sorted(three):
            continue  # problems are alike: once each, times the orders
        orders = {1: 1, 2: 3, 3: 6}[len(set(three))]
        before, after = np.array([pairs[i] for i in three]).T
        if (fallen(before, n, after, n)[1] <= level).any():
            chance += orders * (binomial[before] * binomial[after]).prod()
    assert chance <= level


def test_equal_p_values_are_named_together():
    rng = np.random.default_rng(0)
    before, after = rng.integers(0, 9, 200), rng.integers(0, 9, 200)
    p_values, adjusted = fallen(before, 8, after, 8)
    for p in np.unique(p_values):
        assert len(set(adjusted[p_values == p])) == 1
    assert (np.diff(adjusted[np.argsort(p_values)]) >= 0).all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match="do not fit"):
        adjusted_p_values(np.array([0.1]), np.array([0, 0]), [GRID])
    with pytest.raises(DataError, match=r"lie in \[0, 1\]"):
        adjusted_p_values(np.array([1.1]), np.array([0]), [GRID])
