import pytest
import torch

from dph.loss.objectives import MaxRL
from enumerated_policy import (
    all_binary_groups,
    all_groups,
    expected_gradient,
    gradient_of,
    probabilities,
)

RIGHT = torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=torch.float64)


@pytest.mark.parametrize("n", [4, 5, 6])
def test_a_right_answer_has_wrong_over_right_and_a_wrong_one_minus_one(n):
    for rewards in all_binary_groups(n):
        (found,) = MaxRL()(rewards[None]).tolist()
        right = int(rewards.sum())
        by_hand = {1.0: (n - right) / max(right, 1), 0.0: -1.0 if right else 0.0}
        assert found == pytest.approx([by_hand[r] for r in rewards.tolist()], rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_expected_gradient_is_that_of_the_log_likelihood_up_to_the_power_n_minus_1(n):
    groups, weights = all_groups(n)
    found = expected_gradient(MaxRL()(RIGHT[groups]), groups, weights)
    assert torch.allclose(found, gradient_of(log_likelihood_up_to(n - 1)), rtol=1e-12, atol=1e-15)


def log_likelihood_up_to(power):
    """Log p as a series in the probability of being wrong."""

    def objective(likely):
        wrong = 1 - (likely * RIGHT).sum()
        return -sum(wrong**k / k for k in range(1, power + 1))

    return objective


def test_without_the_baseline_it_would_be_up_to_the_power_n():
    groups, weights = all_groups(4)
    rewards = RIGHT[groups]
    plain = torch.where(rewards.any(-1, keepdim=True), rewards / rewards.mean(-1, keepdim=True), 0)
    found = expected_gradient(plain, groups, weights)
    assert torch.allclose(found, gradient_of(log_likelihood_up_to(4)), rtol=1e-12, atol=1e-15)


def test_with_more_samples_the_gradient_is_that_of_the_log_likelihood():
    likelihood = gradient_of(lambda likely: (likely * RIGHT).sum().log())
    distances = []
    for n in (2, 4, 6):
        groups, weights = all_groups(n)
        found = expected_gradient(MaxRL()(RIGHT[groups]), groups, weights)
        distances.append(float((found - likelihood).norm() / likelihood.norm()))
    # The rest of the series is (1 - p)^(n - 1) of it; p is the mass of the two right answers.
    wrong = float((probabilities() * (1 - RIGHT)).sum())
    assert distances == pytest.approx([wrong, wrong**3, wrong**5], rel=1e-9)


def test_groups_without_signal_have_exactly_zero():
    rewards = torch.tensor([[1.0] * 7, [0.0] * 7])
    assert MaxRL()(rewards).tolist() == [[0.0] * 7] * 2
