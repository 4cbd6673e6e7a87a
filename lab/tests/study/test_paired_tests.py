"""Paired tests and Holm's correction against SciPy and by hand."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from dph.errors import DataError
from lab.study.paired_tests import holm, paired_t


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("count", [2, 3, 10])
def test_the_paired_test_is_scipys(alternative, count):
    rng = np.random.default_rng(count)
    a, b = rng.normal(0.7, 0.1, count).tolist(), rng.normal(0.6, 0.1, count).tolist()
    ours, theirs = paired_t(a, b, alternative), ttest_rel(a, b, alternative=alternative)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    interval = ttest_rel(a, b).confidence_interval()
    assert (ours.lo, ours.hi) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_equal_differences_are_certain_none_says_nothing_and_one_seed_has_no_interval():
    assert paired_t([2.0, 3.0], [1.0, 2.0], "greater").p_value == 0.0
    assert paired_t([1.0, 2.0], [2.0, 3.0], "greater").p_value == 1.0
    same = paired_t([1.0, 2.0], [1.0, 2.0])
    assert (same.mean, same.p_value) == (0.0, 1.0)
    assert paired_t([1.0, 2.0], [1.0, 2.0], "greater").p_value == 0.5
    found = paired_t([1.0], [0.5])
    assert (found.mean, found.lo, found.hi, found.p_value) == (0.5, None, None, None)


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], [])])
def test_values_that_do_not_belong_together_are_refused(a, b):
    with pytest.raises(DataError, match="belong together"):
        paired_t(a, b)


def test_holms_correction_by_hand_stops_at_one_and_leaves_a_single_p_value_alone():
    # Sorted 0.01, 0.02, 0.04 times 3, 2, 1: 0.03, 0.04, 0.04.
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_what_is_rejected_is_what_the_step_down_procedure_rejects():
    """Holm 1979: reject in rising order while p(j) <= level / (m - j + 1), stop at the first."""
    p_values, level = [0.012, 0.3, 0.016, 0.001, 0.026], 0.05
    rejected, m = set(), len(p_values)
    for j, place in enumerate(sorted(range(m), key=p_values.__getitem__)):
        if p_values[place] > level / (m - j):
            break
        rejected.add(place)
    assert rejected == {i for i, p in enumerate(holm(p_values)) if p <= level}
    assert rejected == {0, 2, 3}


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(p):
    with pytest.raises(DataError, match="lies in"):
        holm([p])
