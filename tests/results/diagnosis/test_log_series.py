import numpy as np
import pytest

from dph.results.diagnosis.log_findings import log_series


def series(values):
    return log_series([{"step": i + 1, "x": v} for i, v in enumerate(values)], "x")


def test_begin_and_end_are_means_over_a_tenth_of_the_steps():
    found = series([1, 3, *[0] * 16, 5, 7])
    assert (found.window, found.begin, found.end) == (2, 2, 6)
    assert series([4.0, 5.0]).begin == 4


@pytest.mark.parametrize(
    ("end", "fell", "rose"), [(0.85, True, False), (0.95, False, False), (1.2, False, True)]
)
def test_a_change_is_noticed_from_a_tenth_on(end, fell, rose):
    found = series([1.0] * 10 + [end] * 10)
    assert (found.fell, found.rose) == (fell, rose)


def test_half_way_is_the_step_after_which_it_stays_nearer_to_its_end():
    assert series([1.0] * 5 + [0.0] * 5).half_way() == 6
    assert series([1.0, 0.0, 1.0, 1.0, 0.0, 0.0]).half_way() == 5
    assert series([1.0]).half_way() == 1


def test_smoothed_values_are_means_of_what_is_near():
    found = series(range(40))  # a window of 4 reaches 2 to each side
    smoothed = found.smoothed()
    np.testing.assert_allclose(smoothed[2:-2], np.arange(2, 38))
    assert smoothed[0] == 1  # 0, 1, 2
    assert found.highest() == (40, 38)


def test_steps_without_the_number_are_left_out():
    found = log_series([{"step": 1, "x": None}, {"step": 2}, {"step": 3, "x": 5}], "x")
    assert found.steps.tolist() == [3]
    assert log_series([{"step": 1, "x": None}], "x") is None
