"""Advantages that read what the initial policy did (``flowrl``), and the gate of ``bbg_group``."""

from fractions import Fraction
from itertools import product
from math import comb, sqrt

import pytest
import torch

from dph.loss.objectives import (
    BayesianBoundaryGateOfGroup,
    FlowRL,
    GroupAdvantage,
    GroupSamples,
    boundary_gate,
)
from enumerated_texts import INITIAL, REWARDS, TEXTS, lengths, target, text_logprobs


def sized(drawn, initial, tokens):
    return GroupSamples(logprobs=drawn, lengths=tokens, ref_logprobs=initial)


def test_float32_answers_of_a_thousand_tokens_are_compared():
    # Log-probs near -1000 are 6e-5 apart in float32, and a token's share is a thousandth of that.
    drawn, initial = torch.tensor([[-1000.5, -1000.0]]), torch.full((1, 2), -1000.0)
    found = FlowRL()(torch.ones(1, 2), sized(drawn, initial, torch.full((1, 2), 1000)))
    assert found[0].tolist() == pytest.approx([0.00025, -0.00025], abs=1e-6)


def test_flow_advantages_by_hand():
    # Right, wrong, wrong, right: r - mean is 1/2 or -1/2, the unbiased deviation sqrt(1/3).
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    tokens = torch.tensor([[2, 4, 1, 2]])
    drawn = torch.tensor([[-3.0, -8.0, -1.0, -2.0]], dtype=torch.float64)
    initial = torch.tensor([[-4.0, -2.0, -1.5, -2.0]], dtype=torch.float64)
    # (log pi_0 - log pi_old) / |y| is -1/2, 3/2, -1/2, 0, on average 1/8.
    signs, moved = [1, -1, -1, 1], [-0.625, 1.375, -0.625, -0.125]
    pull = 0.5 / (sqrt(1 / 3) + 1e-6)
    for beta, scale, step in (
        (0.0, "std", 0.0),
        (0.5, "std", 0.5 * pull),
        (15.0, "std", 15 * pull),
        (2.0, "none", 1.0),
    ):
        found = FlowRL(beta, scale=scale)(rewards, sized(drawn, initial, tokens))[0].tolist()
        expected = [step * s + m for s, m in zip(signs, moved, strict=True)]
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("beta", "scale", "n"),
    [(0.1, "std", 2), (1.0, "std", 2), (15.0, "std", 2), (2.0, "none", 2), (2.0, "none", 3)],
)
def test_at_the_target_no_group_of_texts_has_an_advantage(beta, scale, n):
    # Of two answers a right one is +1/sqrt(2) and a wrong one -1/sqrt(2), but for the 1e-6.
    pull = 0.5 / (sqrt(0.5) + 1e-6)
    pulls = [pull if r else -pull for r in REWARDS] if scale == "std" else REWARDS
    policy = target(beta, pulls)
    assert policy.logsumexp(0).item() == pytest.approx(0, abs=1e-12)
    initial = text_logprobs(torch.tensor(INITIAL, dtype=torch.float64))
    groups = torch.tensor(list(product(range(len(TEXTS)), repeat=n)))
    samples = sized(policy[groups], initial[groups], lengths()[groups])
    rewards = torch.tensor(REWARDS, dtype=torch.float64)[groups]
    found = FlowRL(beta, scale=scale)(rewards, samples)
    assert found.abs().max() < 1e-12 * max(1, beta)
    assert FlowRL(beta * 1.1, scale=scale)(rewards, samples).abs().max() > 0.05 * beta


def integral(up, down):
    """Of p^up (1 - p)^down over [0, 1], term by term of the second factor."""
    return sum(Fraction((-1) ** i * comb(down, i), up + i + 1) for i in range(down + 1))


@pytest.mark.parametrize("k", [1, 2, 5, 16])
@pytest.mark.parametrize("n", [4, 8])
def test_it_is_the_posterior_mean_of_the_derivative_of_pass_at_k(n, k):
    for m in range(n + 1):
        posterior_mean = k * integral(m, n - m + k - 1) / integral(m, n - m)
        assert boundary_gate(m, n, k) == pytest.approx(float(posterior_mean), rel=1e-12)


def test_the_gate_of_a_group_counts_its_right_answers_is_closed_below_tau_and_grpo_at_k_1():
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    found = BayesianBoundaryGateOfGroup(k=2, tau=0.0, scale="none")(rewards)
    plain = GroupAdvantage("none")(rewards)
    # u = 2 (4 - m + 1) / 6: 4/3 and 2/3.
    assert torch.allclose(found, plain * torch.tensor([[4 / 3], [2 / 3]]), rtol=1e-6)
    rewards = torch.tensor([[1.0] * right + [0.0] * (8 - right) for right in (1, 4, 7)])
    # Gates 2 (8 - m + 1) / 10 = 8/5, 1 and 2/5 against 9 tau.
    for tau, opened in ((0.02, [1, 1, 1]), (0.1, [1, 1, 0]), (0.12, [1, 0, 0]), (0.25, [0, 0, 0])):
        found = BayesianBoundaryGateOfGroup(k=2, tau=tau)(rewards)
        assert found.any(-1).long().tolist() == opened
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
    assert torch.equal(BayesianBoundaryGateOfGroup(k=1)(rewards), GroupAdvantage()(rewards))
