import math

import pytest

from dph.errors import SettingsError
from dph.loss.objectives import DualAscent


def test_the_weight_stays_where_the_target_is_met():
    assert DualAscent(target=0.03).next(0.15, measured=0.03) == 0.15


@pytest.mark.parametrize(
    ("measured", "power"), [(0.0, -1.0), (0.05, -0.5), (0.15, 0.5), (0.2, 1.0), (7.0, 1.0)]
)
def test_it_rises_above_the_target_and_falls_below_by_at_most_the_rate(measured, power):
    found = DualAscent(target=0.1, rate=0.2).next(1.0, measured=measured)
    assert found == pytest.approx(math.exp(0.2 * power))


def test_it_stays_within_its_bounds():
    ascent = DualAscent(target=0.1, low=0.5, high=2.0)
    assert ascent.next(0.55, measured=0.0) == 0.5
    assert ascent.next(1.9, measured=9.0) == 2.0


def test_a_measured_value_that_answers_to_the_weight_is_led_to_the_target():
    # a value that falls as 0.2 / (1 + weight) meets 0.05 at weight 3
    ascent, weight = DualAscent(target=0.05), 0.1
    for _ in range(200):
        weight = ascent.next(weight, measured=0.2 / (1 + weight))
    assert weight == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": 0.0}, "target and rate must be above 0, got target 0.0"),
        ({"target": 0.1, "rate": -1.0}, "target and rate must be above 0"),
        ({"target": 0.1, "low": 0.0}, "need 0 < low <= high, got 0.0"),
        ({"target": 0.1, "low": 2.0, "high": 1.0}, "need 0 < low <= high, got 2.0 and 1.0"),
    ],
)
def test_numbers_out_of_range_are_refused(changes, message):
    with pytest.raises(SettingsError, match=message):
        DualAscent(**changes)
