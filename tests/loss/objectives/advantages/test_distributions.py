"""Advantages that read what the initial policy did: ``alpha_dpg``, ``flowrl`` and ``bbg``."""

from fractions import Fraction
from itertools import product
from math import comb, exp, log, sqrt

import pytest
import torch

from dph.loss.objectives import (
    AlphaDPG,
    BayesianBoundaryGate,
    BayesianBoundaryGateOfGroup,
    FlowRL,
    GroupAdvantage,
    GroupSamples,
    alpha_pseudo_rewards,
    boundary_gate,
)
from enumerated_policy import all_groups, expected_gradient, gradient_of, probabilities
from enumerated_texts import INITIAL, REWARDS, TEXTS, lengths, target, text_logprobs

RIGHT = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
FIRST = torch.tensor([0.1, 0.4, 0.3, 0.2], dtype=torch.float64)
"""Of the four answers under the initial policy. It is right with 0.1 + 0.3 = (3 + 1) / (8 + 2)."""
PASS_RATE, CORRECT, SAMPLES = 0.4, 3, 8
WIDE = 1e9
"""A bound that no ratio of these policies reaches."""


def counted(logprobs, initial, correct=CORRECT):
    """Samples with the initial policy's right answers, of one problem or of each."""
    count = torch.as_tensor(correct).expand(len(logprobs))
    return GroupSamples(
        logprobs=logprobs,
        lengths=torch.ones_like(logprobs).long(),
        ref_logprobs=initial,
        base_correct=count,
        base_samples=SAMPLES,
    )


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 0.9, 0.999])
def test_the_expected_gradient_is_minus_that_of_the_alpha_divergence_to_the_right_answers(alpha):
    right = FIRST * RIGHT / PASS_RATE

    def generator(t):
        if alpha == 0:
            return t - 1 - t.log()
        return (t**alpha - alpha * t + alpha - 1) / (alpha * (alpha - 1))

    def divergence(likely):  # with f'(inf) = 1 / (1 - alpha) a unit of what pi gives to p's zeros
        inside = right > 0
        t = likely[inside] / right[inside]
        return (right[inside] * generator(t)).sum() + likely[~inside].sum() / (1 - alpha)

    groups, weights = all_groups(3)
    samples = counted(probabilities().log()[groups], FIRST.log()[groups])
    found = expected_gradient(AlphaDPG(alpha, WIDE)(RIGHT[groups], samples), groups, weights)
    exact = gradient_of(divergence)
    assert torch.allclose(found, -exact, rtol=1e-9, atol=1e-12 / (1 - alpha))


def test_pseudo_rewards_by_hand():
    ratios = torch.tensor([4.0, 1.0, 0.25, 0.0], dtype=torch.float64).log()
    assert alpha_pseudo_rewards(ratios, 0.0).tolist() == pytest.approx([3, 0, -0.75, -1])
    assert alpha_pseudo_rewards(ratios, 0.5).tolist() == pytest.approx([2, 0, -1, -2])
    assert alpha_pseudo_rewards(ratios, 1.0).tolist() == ratios.tolist()
    near = alpha_pseudo_rewards(ratios[:3], 1 - 1e-9)
    assert torch.allclose(near, ratios[:3], rtol=1e-8, atol=0)


def test_alpha_advantages_by_hand():
    # p = 0.2 / 0.4 = 0.5 against 0.125, 0.5 and 2 ** -13: sqrt(p / pi) is 2, 1 and 64.
    drawn = torch.tensor([[0.125, 0.5, 2**-13, 0.5]], dtype=torch.float64).log()
    samples = counted(drawn, torch.full((1, 4), log(0.2), dtype=torch.float64))
    rewards = torch.tensor([[1.0, 1.0, 1.0, 0.0]], dtype=torch.float64)
    # R = 2 (2 - 1), 2 (1 - 1), 2 (11 - 1) for clip = 10, and -2; their sum is 20.
    by_hand = [2 - 18 / 3, 0 - 20 / 3, 20 - 0 / 3, -2 - 22 / 3]
    assert AlphaDPG()(rewards, samples)[0].tolist() == pytest.approx(by_hand, rel=1e-12)
    # With clip = 0.5 the first is held as well: R = 1, 0, 1, -2.
    found = AlphaDPG(clip=0.5)(rewards, samples)
    assert found[0].tolist() == pytest.approx([1 + 1 / 3, 0, 1 + 1 / 3, -2 - 2 / 3], abs=1e-12)
    # A bound above 63 holds nothing: R = 2, 0, 126, -2.
    found = AlphaDPG(clip=64.0)(rewards, samples)
    assert found[0, 2].item() == pytest.approx(126 - (2 + 0 - 2) / 3, rel=1e-12)


def test_an_answer_that_the_policy_hardly_gives_stays_finite():
    drawn, rewards = torch.tensor([[-500.0, -1.0]]), torch.tensor([[1.0, 0.0]])
    found = AlphaDPG(0.0)(rewards, counted(drawn, torch.full((1, 2), -1.0)))
    # R = 10 and -1, and each is the other's baseline.
    assert found[0].tolist() == pytest.approx([11.0, -11.0], rel=1e-6)


def test_each_group_has_the_pass_rate_of_its_problem_which_is_never_0_nor_1():
    drawn = torch.full((4, 2), -1.0, dtype=torch.float64)
    rewards = torch.tensor([[1.0, 0.0]] * 4, dtype=torch.float64)
    found = AlphaDPG(0.0)(rewards, counted(drawn, drawn, [0, 1, 3, 8]))
    assert found[:, 0].tolist() == pytest.approx([10, 5, 2.5, 1 / 0.9], rel=1e-12)


def test_wrong_answers_alone_say_nothing_and_right_ones_alone_do():
    samples = counted(torch.tensor([[-1.0, -2.0, -4.0]]), torch.full((1, 3), -2.0))
    assert AlphaDPG(0.3)(torch.zeros(1, 3), samples).tolist() == [[0.0] * 3]
    found = AlphaDPG(0.3)(torch.ones(1, 3), samples)[0].tolist()
    assert found == sorted(found)
    assert found[0] < 0 < found[2]
    assert sum(found) == pytest.approx(0, abs=1e-5)


def test_float32_answers_of_a_thousand_tokens_are_compared():
    # Log-probs near -1000 are 6e-5 apart in float32, and a token's share is a thousandth of that.
    drawn, initial = torch.tensor([[-1000.5, -1000.0]]), torch.full((1, 2), -1000.0)
    found = AlphaDPG(0.0)(torch.ones(1, 2), counted(drawn, initial))
    assert found[0, 0].item() == pytest.approx((exp(0.5) - 1) / PASS_RATE, rel=1e-3)
    found = FlowRL()(torch.ones(1, 2), sized(drawn, initial, torch.full((1, 2), 1000)))
    assert found[0].tolist() == pytest.approx([0.00025, -0.00025], abs=1e-6)


def sized(drawn, initial, tokens):
    return GroupSamples(logprobs=drawn, lengths=tokens, ref_logprobs=initial)


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


BINARY = torch.tensor([[1.0, 0.0, 0.0, 1.0]] * 3, dtype=torch.float64)


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
    for row, gate in zip(term(BINARY, samples).tolist(), (9 / 5, 1, 1 / 5), strict=True):
        assert row == pytest.approx([gate / 2 * sign for sign in signs], rel=1e-12)


def test_a_gate_below_tau_times_n_plus_1_is_closed():
    samples = GroupSamples(base_correct=torch.tensor([0, 4, 8]), base_samples=8)
    # Gates 9/5, 1 and 1/5 against 9 tau.
    for tau, opened in ((0.02, [1, 1, 1]), (0.1, [1, 1, 0]), (0.12, [1, 0, 0]), (0.25, [0, 0, 0])):
        found = BayesianBoundaryGate(k=2, tau=tau)(BINARY, samples)
        assert found.any(-1).long().tolist() == opened


def test_the_gate_of_a_group_counts_its_own_right_answers():
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    found = BayesianBoundaryGateOfGroup(k=2, tau=0.0, scale="none")(rewards)
    plain = GroupAdvantage("none")(rewards)
    # u = 2 (4 - m + 1) / 6: 4/3 and 2/3.
    assert torch.allclose(found, plain * torch.tensor([[4 / 3], [2 / 3]]), rtol=1e-6)


def test_k_of_1_is_grpo():
    samples = GroupSamples(base_correct=torch.tensor([0, 4, 8]), base_samples=8)
    assert torch.equal(BayesianBoundaryGate(k=1)(BINARY, samples), GroupAdvantage()(BINARY))
