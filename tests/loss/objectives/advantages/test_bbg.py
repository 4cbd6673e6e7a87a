from fractions import Fraction
from math import comb

import pytest
import torch

from dph.loss.objectives import (
    BayesianBoundaryGate,
    BayesianBoundaryGateOfGroup,
    GroupAdvantage,
    GroupSamples,
    boundary_gate,
)

REWARDS = torch.tensor([[1.0, 0.0, 0.0, 1.0]] * 3, dtype=torch.float64)


def integral(up, down):
    """Of p^up (1 - p)^down over [0, 1], term by term of the second factor."""
    return sum(Fraction((-1) ** i * comb(down, i), up + i + 1) for i in range(down + 1))


@pytest.mark.parametrize("k", [1, 2, 5, 16])
@pytest.mark.parametrize("n", [4, 8])
def test_it_is_the_posterior_mean_of_the_derivative_of_pass_at_k(n, k):
    for m in range(n + 1):
        posterior_mean = k * integral(m, n - m + k - 1) / integral(m, n - m)
        assert boundary_gate(m, n, k) == pytest.approx(float(posterior_mean), rel=1e-12)


def test_a_group_is_weighted_by_what_the_initial_policy_did_on_its_problem():
    term = BayesianBoundaryGate(k=2, tau=0.0, scale="none")
    samples = GroupSamples(base_correct=torch.tensor([0, 4, 8]), base_samples=8)
    # u = 2 (8 - m + 1) / 10: 9/5, 1 and 1/5; A is 1/2 and -1/2.
    signs = [1, -1, -1, 1]
    for row, gate in zip(term(REWARDS, samples).tolist(), (9 / 5, 1, 1 / 5), strict=True):
        assert row == pytest.approx([gate / 2 * sign for sign in signs], rel=1e-12)


def test_a_gate_below_tau_times_n_plus_1_is_closed():
    samples = GroupSamples(base_correct=torch.tensor([0, 4, 8]), base_samples=8)
    # Gates 9/5, 1 and 1/5 against 9 tau.
    for tau, opened in ((0.02, [1, 1, 1]), (0.1, [1, 1, 0]), (0.12, [1, 0, 0]), (0.25, [0, 0, 0])):
        found = BayesianBoundaryGate(k=2, tau=tau)(REWARDS, samples)
        assert found.any(-1).long().tolist() == opened


def test_the_gate_of_a_group_counts_its_own_right_answers():
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    found = BayesianBoundaryGateOfGroup(k=2, tau=0.0, scale="none")(rewards)
    plain = GroupAdvantage("none")(rewards)
    # u = 2 (4 - m + 1) / 6: 4/3 and 2/3.
    assert torch.allclose(found, plain * torch.tensor([[4 / 3], [2 / 3]]), rtol=1e-6)


def test_k_of_1_is_grpo():
    samples = GroupSamples(base_correct=torch.tensor([0, 4, 8]), base_samples=8)
    assert torch.equal(BayesianBoundaryGate(k=1)(REWARDS, samples), GroupAdvantage()(REWARDS))
