from functools import reduce
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from dph.errors import DataError
from dph.results.diagnosis.totals import (
    fall_of_sum,
    fall_p_values,
    falls,
    named_totals,
    second_draw,
    set_totals,
    smallest_total_rate,
    sum_of_counts,
)
from results.diagnosis.models import scores_of, scores_with


def test_the_distribution_of_a_sum_is_the_convolution_of_its_parts():
    rng = np.random.default_rng(0)
    counts = {
        tuple(second_draw(int(t), 16, 16).tolist()): int(rng.integers(1, 40)) for t in range(33)
    }
    each = [np.array(chances) for chances, times in counts.items() for _ in range(times)]
    found = sum_of_counts(counts)
    np.testing.assert_allclose(found, reduce(np.convolve, each), atol=1e-12)
    assert found.sum() == pytest.approx(1, abs=1e-12)


def deals(problem):
    """All ways of dealing a problem's right and wrong answers to two draws of three."""
    for chosen in combinations(range(6), 3):
        first = np.zeros(6, dtype=bool)
        first[list(chosen)] = True
        yield problem[first].sum(), problem[~first].sum()


def test_totals_are_those_of_all_deals_of_the_same_answers():
    before = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    after = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)
    found = set_totals(scores_of(after), scores_of(before))
    all_deals = list(product(*(deals(row) for row in np.hstack([before, after]))))
    right = np.array([sum(b for _, b in deal) for deal in all_deals])
    alone = np.array([sum(a > 0 and b == 0 for a, b in deal) for deal in all_deals])
    gained = np.array([sum(b > 0 and a == 0 for a, b in deal) for deal in all_deals])
    for one, null, observed in zip(found.values(), (right, alone, gained), (4, 1, 1), strict=True):
        assert one.observed == observed
        assert one.expected == pytest.approx(null.mean())
        tails = (null <= observed).mean(), (null >= observed).mean()
        assert one.p_value == pytest.approx(min(1, 2 * min(tails)))
        assert (null < one.lo).mean() <= 0.025 + 1e-12
        assert (null > one.hi).mean() <= 0.025 + 1e-12


def test_the_chance_of_a_fall_is_that_over_all_deals():
    before, after = np.array([3, 1, 0]), np.array([0, 0, 1])
    rows = [np.arange(6) < b + a for b, a in zip(before, after, strict=True)]
    right = np.array([sum(b for _, b in deal) for deal in product(*(deals(row) for row in rows))])
    assert fall_of_sum(before, after, 3) == pytest.approx((right <= 1).mean())


def test_totals_are_named_at_a_level_exactly_when_it_reaches_their_smallest_rate():
    found = set_totals(scores_with([0] * 6, 8), scores_with([3] * 6, 8))
    rate = smallest_total_rate(found)
    assert rate == 3 * min(one.p_value for one in found.values())
    assert any(one.named for one in named_totals(found, rate).values())
    assert not any(one.named for one in named_totals(found, 0.999 * rate).values())
    assert found["solved_before_alone"].observed == 6
    assert found["solved_after_alone"].observed == 0


@pytest.mark.parametrize(("total", "first", "second"), [(0, 2, 3), (3, 4, 3), (5, 3, 4), (7, 3, 4)])
def test_the_second_draw_is_every_way_of_dealing_the_right_answers(total, first, second):
    deals = list(combinations(range(first + second), total))
    in_second = np.array([sum(place >= first for place in deal) for deal in deals])
    expected = [(in_second == j).mean() for j in range(second + 1)]
    np.testing.assert_allclose(second_draw(total, first, second), expected, atol=1e-15)
    np.testing.assert_allclose(falls(total, first, second), np.cumsum(expected), atol=1e-15)


def binomial(n, p):
    return np.array([comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)])


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("first", "second"), [(4, 4), (3, 6)])
def test_two_draws_of_one_model_have_a_small_p_value_no_more_often_than_it_says(p, first, second):
    before, after = np.indices((first + 1, second + 1)).reshape(2, -1)
    chance = np.outer(binomial(first, p), binomial(second, p)).ravel()
    p_values = fall_p_values(before, first, after, second)
    for level in np.unique(p_values):
        assert chance[p_values <= level].sum() <= level + 1e-12


def test_equal_tails_are_equal_numbers_however_they_come_about():
    assert falls(16, 16, 16)[15] == 1 - second_draw(16, 16, 16)[16]
    assert second_draw(7, 64, 64)[3] == second_draw(7, 64, 64)[4]


@pytest.mark.parametrize(("total", "first", "second"), [(5, 2, 2), (-1, 2, 2), (0, 0, 2)])
def test_what_no_two_draws_can_show_is_refused(total, first, second):
    with pytest.raises(DataError, match="cannot have"):
        second_draw(total, first, second)
