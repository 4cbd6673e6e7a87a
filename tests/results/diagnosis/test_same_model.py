from itertools import combinations
from math import comb

import numpy as np
import pytest

from dph.errors import DataError
from dph.results.diagnosis.totals import fall_p_values, falls, second_draw


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


def test_all_lost_of_sixteen_is_one_deal_of_all():
    (p_value,) = fall_p_values(np.array([16]), 16, np.array([0]), 16)
    assert p_value == pytest.approx(1 / comb(32, 16), rel=1e-12)


def test_equal_tails_are_equal_numbers_however_they_come_about():
    assert falls(16, 16, 16)[15] == 1 - second_draw(16, 16, 16)[16]
    assert second_draw(7, 64, 64)[3] == second_draw(7, 64, 64)[4]


@pytest.mark.parametrize(("total", "first", "second"), [(5, 2, 2), (-1, 2, 2), (0, 0, 2)])
def test_what_no_two_draws_can_show_is_refused(total, first, second):
    with pytest.raises(DataError, match="cannot have"):
        second_draw(total, first, second)
