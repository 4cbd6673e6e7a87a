import numpy as np
import pytest

from dph.errors import DataError
from dph.results.diagnosis.changes import newcombe, wilson


@pytest.mark.parametrize(("count", "of"), [(0, 16), (3, 16), (16, 16), (500, 1000)])
def test_wilsons_limits_are_the_shares_that_a_score_test_just_does_not_refuse(count, of):
    z = 1.959963984540054
    for limit in wilson(count, of):
        if 0 < limit < 1:
            assert abs(count / of - limit) == pytest.approx(z * np.sqrt(limit * (1 - limit) / of))


def test_an_interval_stays_within_what_is_possible_and_holds_the_share():
    for count in range(9):
        lo, hi = wilson(count, 8)
        assert 0 <= lo <= count / 8 <= hi <= 1


def test_a_difference_and_its_reverse_mirror_each_other():
    one, other = newcombe(3, 16, 12, 20), newcombe(12, 20, 3, 16)
    assert (one.mean, one.lo, one.hi) == pytest.approx((-other.mean, -other.hi, -other.lo))
    assert -1 <= one.lo < one.mean < one.hi < 0


def test_a_share_of_nothing_is_refused():
    with pytest.raises(DataError, match="got 0 of 0"):
        wilson(0, 0)
    with pytest.raises(DataError, match="got 3 of 2"):
        wilson(3, 2)
