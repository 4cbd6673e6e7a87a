from math import exp
from statistics import mean, stdev

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import DataError, SettingsError
from dph.loss.objectives import (
    DifferentialSmoothing,
    FocalAdvantage,
    GroupAdvantage,
    GroupSamples,
    MaxRL,
    UniformCorrect,
    group_advantages,
    has_signal,
)
from enumerated_policy import (
    all_binary_groups,
    all_groups,
    expected_gradient,
    gradient_of,
    probabilities,
)

RIGHT = torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=torch.float64)


def test_is_the_distance_to_the_mean_in_unbiased_standard_deviations_or_without_scale():
    # 1, 0, 0, 0: mean 1/4, squared distances 9/16 + 3/16 = 3/4, divided by 3: std 1/2.
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    expected = torch.tensor([[0.75, -0.25, -0.25, -0.25]], dtype=torch.float64)
    for eps in (1e-6, 0.5):
        found = group_advantages(rewards, eps=eps)
        torch.testing.assert_close(found, expected / (0.5 + eps), rtol=1e-14, atol=0)
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [2.0, 2.0, 4.0, 0.0]])
    advantages = group_advantages(rewards, scale="none")
    assert advantages.tolist() == [[0.75, -0.25, -0.25, -0.25], [0.0, 0.0, 2.0, -2.0]]
    assert group_advantages(torch.zeros(0, 4)).shape == (0, 4)


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


def test_bad_input_is_refused():
    with pytest.raises(DataError, match="at least one reward"):
        group_advantages(torch.zeros(2, 0))
    with pytest.raises(SettingsError, match=r"eps must be above 0, got 0\.0"):
        group_advantages(torch.zeros(2, 2), eps=0.0)


@pytest.mark.parametrize("n", [4, 5, 6])
def test_maxrl_gives_a_right_answer_wrong_over_right_and_a_wrong_one_minus_one(n):
    for rewards in all_binary_groups(n):
        (found,) = MaxRL()(rewards[None]).tolist()
        right = int(rewards.sum())
        by_hand = {1.0: (n - right) / max(right, 1), 0.0: -1.0 if right else 0.0}
        assert found == pytest.approx([by_hand[r] for r in rewards.tolist()], rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_maxrls_expected_gradient_is_that_of_the_log_likelihood_up_to_the_power_n_minus_1(n):
    def log_likelihood(likely):
        wrong = 1 - (likely * RIGHT).sum()
        return -sum(wrong**k / k for k in range(1, n))  # log p as a series in 1 - p

    groups, weights = all_groups(n)
    found = expected_gradient(MaxRL()(RIGHT[groups]), groups, weights)
    assert torch.allclose(found, gradient_of(log_likelihood), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("n", [4, 5])
def test_f_grpo_is_grpos_times_a_power_of_the_failure_rate(n, gamma):
    for rewards in all_binary_groups(n):
        values = rewards.tolist()
        found = FocalAdvantage(gamma)(rewards[None])[0].tolist()
        if len(set(values)) == 1:
            assert found == [0.0] * n
            continue
        failing = values.count(0.0) / n
        by_hand = [failing**gamma * (r - mean(values)) / (stdev(values) + 1e-6) for r in values]
        assert found == pytest.approx(by_hand, rel=1e-12)


def test_f_grpo_of_one_right_answer_of_four_and_three_of_four_by_hand():
    # Without the deviation A is 3/4, -1/4 ... and 1/4, -3/4; the factors are 3/4 and 1/4.
    found = FocalAdvantage(1.0, "none")(torch.tensor([[1.0, 0, 0, 0], [1, 1, 1, 0]]))
    assert found.mul(16).tolist() == [[9, -3, -3, -3], [1, 1, 1, -3]]


def drawn(rewards):
    generator = torch.Generator().manual_seed(0)
    return GroupSamples(
        logprobs=-20 * torch.rand(rewards.shape, generator=generator, dtype=torch.float64),
        lengths=torch.randint(1, 9, rewards.shape, generator=generator),
    )


@pytest.mark.parametrize("tau", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("n", [4, 5])
def test_ucpos_right_answers_share_grpos_credit_by_their_improbability(n, tau):
    rewards = all_binary_groups(n)
    samples = drawn(rewards)
    found = UniformCorrect(tau)(rewards, samples)
    for group, values in enumerate(rewards.tolist()):
        means = (samples.logprobs[group] / samples.lengths[group]).tolist()
        right = [i for i, r in enumerate(values) if r]
        total = sum(exp(means[i]) for i in right)
        rare = {i: 1 / max(exp(means[i]) / total, 1e-6) for i in right}
        by_hand = GroupAdvantage()(rewards[group : group + 1])[0].tolist()
        for i in rare:
            share = (1 - tau) / len(right) + tau * rare[i] / sum(rare.values())
            by_hand[i] *= len(right) * share
        assert found[group].tolist() == pytest.approx(by_hand, rel=1e-9, abs=1e-15)


def test_ucpos_probabilities_of_one_to_three_by_hand_and_one_that_hardly_ever_comes():
    # Of two right answers q is 1/4 and 3/4, so v is 4 and 4/3, shares are 3/4 and 1/4; with
    # tau = 1/2 they become 5/8 and 3/8. A without deviation is 1/3, to be shared twice.
    rewards = torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    odds = torch.tensor([[0.25, 0.75, 0.9]], dtype=torch.float64).log()
    samples = GroupSamples(logprobs=odds * 2, lengths=torch.tensor([[2, 2, 2]]))
    found = UniformCorrect(0.5, "none")(rewards, samples)
    assert found[0].tolist() == pytest.approx([2 / 3 * 5 / 8, 2 / 3 * 3 / 8, -2 / 3], rel=1e-12)
    rewards = torch.tensor([[1.0, 1.0, 0.0]])
    logprobs, lengths = torch.tensor([[-1e4, 0.0, 0.0]]), torch.ones(1, 3).long()
    samples = GroupSamples(logprobs=logprobs, lengths=lengths)
    found = UniformCorrect(0.2, "none")(rewards, samples)
    assert torch.isfinite(found).all()
    assert found[0, 1] == pytest.approx(1 / 3 * 0.8, rel=1e-5)


@pytest.mark.parametrize(("gamma_p", "gamma_n"), [(0.1, 0.03), (0.0, 0.2), (0.3, 0.0)])
def test_smoothings_expected_gradient_raises_the_entropy_of_right_answers_and_lowers_the_others(
    gamma_p, gamma_n
):
    n = 4
    groups, weights = all_groups(n)
    logprobs = probabilities().log()[groups]
    samples = GroupSamples(logprobs=logprobs, lengths=torch.ones_like(logprobs).long())
    found = DifferentialSmoothing(gamma_p, gamma_n, "none")(RIGHT[groups], samples)

    def objective(likely):
        rate = (likely * RIGHT).sum()
        of_right, of_wrong = (-(likely * likely.log() * side).sum() for side in (RIGHT, 1 - RIGHT))
        # GRPO's own is (n - 1) / n of the success rate; grad p log p = (log p + 1) grad p.
        return ((n - 1) / n + gamma_p + gamma_n) * rate + gamma_p * of_right - gamma_n * of_wrong

    exact = gradient_of(objective)
    assert torch.allclose(expected_gradient(found, groups, weights), exact, rtol=1e-12, atol=1e-15)


def test_smoothing_adds_the_sum_of_log_probs_or_the_mean_to_grpos_with_one_gamma_or_two():
    # By hand: -20 nats over 10 tokens are -2 a token, and -2 over 1 token are the same.
    rewards = torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    logprobs = torch.tensor([[-2.0, -20.0], [-3.0, -4.0]], dtype=torch.float64)
    samples = GroupSamples(logprobs=logprobs, lengths=torch.tensor([[1, 10], [2, 16]]))
    by_mean = DifferentialSmoothing(0.5, 0.25, logprob="mean")(rewards, samples)
    assert by_mean.tolist() == [[1.0, 1.0], [-0.375, -0.0625]]
    by_sum = DifferentialSmoothing(0.5, 0.25)(rewards, samples)
    assert by_sum.tolist() == [[1.0, 10.0], [-0.75, -1.0]]
    rewards = all_binary_groups(4)
    samples = drawn(rewards)
    both = DifferentialSmoothing(0.2, 0.2)(rewards, samples)
    assert torch.equal(DifferentialSmoothing(0.2)(rewards, samples), both)
    added = 0.2 * (1 - 2 * rewards) * samples.logprobs
    assert torch.allclose(both, GroupAdvantage()(rewards) + added, rtol=1e-12, atol=1e-14)
