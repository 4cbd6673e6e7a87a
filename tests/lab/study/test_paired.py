import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

from dph.errors import DataError
from dph.lab.study.results import paired_t


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("count", [2, 3, 4, 10])
def test_it_is_scipys_paired_test(alternative, count):
    rng = np.random.default_rng(count)
    a, b = rng.normal(0.7, 0.1, count).tolist(), rng.normal(0.6, 0.1, count).tolist()
    ours, theirs = paired_t(a, b, alternative), ttest_rel(a, b, alternative=alternative)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    interval = ttest_rel(a, b).confidence_interval()
    assert (ours.lo, ours.hi) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_by_hand():
    # Differences 1, 3: mean 2, s = sqrt(2), error 1, t = 2; of one degree 1/2 - atan(2)/pi.
    found = paired_t([2.0, 4.0], [1.0, 1.0], "greater")
    assert found.mean == 2.0
    assert found.standard_error == pytest.approx(1.0)
    assert found.p_value == pytest.approx(0.5 - math.atan(2) / math.pi)


def test_a_against_b_is_the_mirror_of_b_against_a():
    a, b = [0.5, 0.7, 0.6], [0.4, 0.5, 0.65]
    assert paired_t(a, b, "greater").p_value == pytest.approx(paired_t(b, a, "less").p_value)
    assert paired_t(a, b).mean == pytest.approx(-paired_t(b, a).mean)


def test_equal_differences_are_certain_and_none_says_nothing():
    assert paired_t([2.0, 3.0], [1.0, 2.0], "greater").p_value == 0.0
    assert paired_t([1.0, 2.0], [2.0, 3.0], "greater").p_value == 1.0
    same = paired_t([1.0, 2.0], [1.0, 2.0])
    assert (same.mean, same.p_value) == (0.0, 1.0)
    assert paired_t([1.0, 2.0], [1.0, 2.0], "greater").p_value == 0.5


def test_one_seed_has_no_interval():
    found = paired_t([1.0], [0.5])
    assert (found.mean, found.lo, found.hi, found.p_value) == (0.5, None, None, None)


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], [])])
def test_values_that_do_not_belong_together_are_refused(a, b):
    with pytest.raises(DataError, match="belong together"):
        paired_t(a, b)
