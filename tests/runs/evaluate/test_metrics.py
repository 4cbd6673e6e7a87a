from itertools import combinations
from math import exp, log

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.metrics import (
    Retention,
    effective_styles,
    pass_at_k,
    pass_at_k_curve,
    retention,
    style_shares,
)


@pytest.mark.parametrize("correct", range(7))
@pytest.mark.parametrize("k", range(1, 7))
def test_pass_at_k_equals_the_average_over_all_subsets(correct, k):
    results = [True] * correct + [False] * (6 - correct)
    subsets = [any(subset) for subset in combinations(results, k)]
    assert pass_at_k(6, correct, k) == pytest.approx(sum(subsets) / len(subsets), abs=1e-15)


@pytest.mark.parametrize("n", [1, 7, 32, 1024])
def test_pass_at_1_is_the_fraction_of_correct_samples(n):
    assert [pass_at_k(n, c, 1) for c in range(n + 1)] == [c / n for c in range(n + 1)]


def test_a_small_value_keeps_its_digits_where_one_minus_a_ratio_would_lose_them():
    assert pass_at_k(10**17, 1, 1) == 1e-17


def test_the_curve_is_the_scalar_for_every_problem_up_to_1024_samples():
    correct = np.array([0, 1, 5, 512, 1000, 1023, 1024, 5])
    ks = [1, 2, 8, 256, 1024]
    curve = pass_at_k_curve(1024, correct, ks)
    assert list(curve) == ks
    for k in ks:
        expected = [pass_at_k(1024, int(c), k) for c in correct]
        np.testing.assert_allclose(curve[k], expected, rtol=0, atol=1e-12)
    assert pass_at_k_curve(4, np.array([], dtype=int), [2])[2].shape == (0,)


@pytest.mark.parametrize("k", [0, -1, 9])
def test_a_k_outside_the_samples_is_refused(k):
    message = f"need 1 <= k <= samples, got k={k}, samples=8"
    with pytest.raises(SettingsError, match=message):
        pass_at_k(8, 2, k)
    with pytest.raises(ValueError, match=message):
        pass_at_k_curve(8, np.array([2]), [k])


@pytest.mark.parametrize("correct", [-1, 9])
def test_more_correct_samples_than_samples_are_refused(correct):
    with pytest.raises(DataError, match=f"got correct={correct}, samples=8"):
        pass_at_k(8, correct, 1)


def test_keep_and_explore_average_over_every_possible_second_draw():
    base = np.array([[1, 0, 0, 0, 1], [0, 1, 1, 1, 0], [0, 0, 1, 0, 0]], dtype=bool)
    model = np.array([[0, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 0, 1, 1]], dtype=bool)

    def draws(row):
        return np.mean([any(row[list(chosen)]) for chosen in combinations(range(2, 5), 2)])

    got = retention(model, base, k=2)  # problems 0 and 1 are solved by the base's first two
    assert got.keep == pytest.approx((draws(model[0]) + draws(model[1])) / 2)
    assert got.explore == pytest.approx(draws(model[2]))
    assert got.keep_null == pytest.approx((draws(base[0]) + draws(base[1])) / 2)
    assert got.explore_null == pytest.approx(draws(base[2]))


def test_shared_random_numbers_do_not_pass_for_retention():
    # The same weights and the same seed repeat the base's draw; only later samples count.
    base = np.zeros((4, 16), dtype=bool)
    base[:2, :8] = True
    assert retention(base, base).keep == 0.0


@pytest.mark.parametrize(
    ("solved", "present", "absent"), [(True, "keep", "explore"), (False, "explore", "keep")]
)
def test_an_empty_side_has_no_value(solved, present, absent):
    base = np.full((3, 4), solved)
    got = retention(base, base, k=2)
    assert getattr(got, present) == getattr(got, f"{present}_null") == float(solved)
    assert getattr(got, absent) is getattr(got, f"{absent}_null") is None


def test_a_second_draw_needs_the_same_problems_and_k_samples_beyond_the_first_k():
    long, short = np.ones((2, 4), dtype=bool), np.ones((2, 3), dtype=bool)
    model_short = retention(short, long, k=2)
    assert (model_short.keep, model_short.keep_null) == (None, 1.0)
    base_short = retention(long, short, k=2)
    assert (base_short.keep, base_short.keep_null) == (1.0, None)
    assert retention(long, short, k=4) == Retention(
        keep=None, explore=None, keep_null=None, explore_null=None
    )
    ones = np.ones((2, 4), dtype=bool)
    with pytest.raises(DataError, match="got 2 and 1"):
        retention(ones, ones[:1])
    with pytest.raises(SettingsError, match="k=0"):
        retention(ones, ones, k=0)


def test_shares_are_fractions_and_count_as_the_exponential_of_their_entropy():
    shares = style_shares(["plain", "cte", "plain", "alias"])
    assert list(shares.items()) == [("alias", 0.25), ("cte", 0.25), ("plain", 0.5)]
    assert style_shares([]) == {}
    expected = exp(-(0.9 * log(0.9) + 0.1 * log(0.1)))
    assert effective_styles({"a": 0.9, "b": 0.1, "never": 0.0}) == pytest.approx(expected)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_equal_shares_count_as_many_styles_as_there_are(count):
    assert effective_styles({str(i): 1 / count for i in range(count)}) == pytest.approx(count)


@pytest.mark.parametrize("shares", [{"a": 0.5}, {"a": 1.5, "b": -0.5}])
def test_what_is_no_set_of_shares_is_refused(shares):
    with pytest.raises(DataError, match="add up to 1"):
        effective_styles(shares)
