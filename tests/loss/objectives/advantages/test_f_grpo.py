from statistics import mean, stdev

import pytest
import torch

from dph.errors import SettingsError
from dph.loss.objectives import FocalAdvantage, GroupAdvantage
from enumerated_policy import all_binary_groups


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("n", [4, 5, 6])
def test_it_is_grpos_times_a_power_of_the_failure_rate(n, gamma):
    for rewards in all_binary_groups(n):
        values = rewards.tolist()
        found = FocalAdvantage(gamma)(rewards[None])[0].tolist()
        if len(set(values)) == 1:
            assert found == [0.0] * n
            continue
        failing = values.count(0.0) / n
        by_hand = [failing**gamma * (r - mean(values)) / (stdev(values) + 1e-6) for r in values]
        assert found == pytest.approx(by_hand, rel=1e-12)


def test_one_right_answer_of_four_and_three_of_four_by_hand():
    # Without the deviation A is 3/4, -1/4 ... and 1/4, -3/4; the factors are 3/4 and 1/4.
    found = FocalAdvantage(1.0, "none")(torch.tensor([[1.0, 0, 0, 0], [1, 1, 1, 0]]))
    assert found.tolist() == [
        [9 / 16, -3 / 16, -3 / 16, -3 / 16],
        [1 / 16, 1 / 16, 1 / 16, -3 / 16],
    ]


def test_a_power_of_0_is_grpo():
    rewards = all_binary_groups(5)
    assert torch.equal(FocalAdvantage(0.0)(rewards), GroupAdvantage()(rewards))


@pytest.mark.parametrize("gamma", [-0.1, float("inf"), float("nan")])
def test_a_power_below_0_is_refused(gamma):
    with pytest.raises(SettingsError, match="gamma of f_grpo must be finite and at least 0"):
        FocalAdvantage(gamma)
