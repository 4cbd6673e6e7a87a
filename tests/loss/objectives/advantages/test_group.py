import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import DataError, SettingsError
from dph.loss.objectives import group_advantages, has_signal


def test_is_the_distance_to_the_mean_in_unbiased_standard_deviations():
    # 1, 0, 0, 0: mean 1/4, squared distances 9/16 + 3/16 = 3/4, divided by 3: std 1/2.
    advantages = group_advantages(torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64))
    expected = torch.tensor([[0.75, -0.25, -0.25, -0.25]], dtype=torch.float64) / (0.5 + 1e-6)
    torch.testing.assert_close(advantages, expected, rtol=1e-14, atol=0)


def test_eps_is_added_to_the_deviation_not_to_the_variance():
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    assert group_advantages(rewards, eps=0.5)[0, 0].item() == pytest.approx(0.75 / (0.5 + 0.5))


def test_without_scale_only_the_mean_goes():
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [2.0, 2.0, 4.0, 0.0]])
    advantages = group_advantages(rewards, scale="none")
    assert advantages.tolist() == [[0.75, -0.25, -0.25, -0.25], [0.0, 0.0, 2.0, -2.0]]


@pytest.mark.parametrize("scale", ["std", "none"])
@given(reward=st.floats(-10, 10, width=32), samples=st.integers(1, 17))
def test_a_group_without_variance_gets_exactly_zero(scale, reward, samples):
    rewards = torch.full((2, samples), reward)
    assert group_advantages(rewards, scale=scale).tolist() == [[0.0] * samples] * 2
    assert not has_signal(rewards).any()


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=16))
def test_a_group_has_signal_when_its_rewards_differ_and_its_advantages_sum_to_zero(rewards):
    tensor = torch.tensor([rewards])
    assert has_signal(tensor).tolist() == [len(set(rewards)) > 1]
    assert group_advantages(tensor).sum().item() == pytest.approx(0.0, abs=1e-5)


def test_groups_do_not_see_each_other():
    rewards = torch.tensor([[1.0, 0.0], [5.0, 9.0], [3.0, 3.0]])
    together = group_advantages(rewards)
    for i in range(3):
        assert together[i].tolist() == group_advantages(rewards[i : i + 1])[0].tolist()


def test_no_groups_have_no_advantages():
    assert group_advantages(torch.zeros(0, 4)).shape == (0, 4)


def test_bad_input_is_refused():
    with pytest.raises(DataError, match="at least one reward"):
        group_advantages(torch.zeros(2, 0))
    with pytest.raises(SettingsError, match=r"eps must be above 0, got 0\.0"):
        group_advantages(torch.zeros(2, 2), eps=0.0)


@pytest.mark.usefixtures("no_type_checks")
def test_an_unknown_scale_is_refused():
    with pytest.raises(SettingsError, match="'std' or 'none', got 'mad'"):
        group_advantages(torch.zeros(2, 2), scale="mad")
