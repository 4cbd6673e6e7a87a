from math import exp, log

import pytest
import torch

from dph.errors import DataError, SettingsError
from dph.loss.objectives import AlphaDPG, GroupAdvantage, GroupSamples, alpha_pseudo_rewards
from enumerated_policy import all_groups, expected_gradient, gradient_of, probabilities

RIGHT = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
INITIAL = torch.tensor([0.1, 0.4, 0.3, 0.2], dtype=torch.float64)
"""Of the four answers under the initial policy. It is right with 0.1 + 0.3 = (3 + 1) / (8 + 2)."""
PASS_RATE, CORRECT, SAMPLES = 0.4, 3, 8
WIDE = 1e9
"""A bound that no ratio of these policies reaches."""
ALPHAS = [0.0, 0.25, 0.5, 0.9, 0.999]


def read(logprobs, initial, correct=CORRECT, samples=SAMPLES):
    return GroupSamples(
        logprobs=logprobs,
        lengths=torch.ones_like(logprobs).long(),
        ref_logprobs=initial,
        base_correct=torch.full((len(logprobs),), correct),
        base_samples=samples,
    )


def enumerated(term, rewards=RIGHT, **counts):
    groups, weights = all_groups(3)
    samples = read(probabilities().log()[groups], INITIAL.log()[groups], **counts)
    return expected_gradient(term(rewards[groups], samples), groups, weights)


def alpha_divergence(alpha, target):
    """E_p[f(pi / p)], with f'(inf) = 1 / (1 - alpha) a unit of what pi gives to p's zeros."""

    def generator(t):
        if alpha == 0:
            return t - 1 - t.log()
        return (t**alpha - alpha * t + alpha - 1) / (alpha * (alpha - 1))

    def objective(likely):
        inside = target > 0
        t = likely[inside] / target[inside]
        return (target[inside] * generator(t)).sum() + likely[~inside].sum() / (1 - alpha)

    return objective


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_expected_gradient_is_minus_that_of_the_alpha_divergence_to_the_right_answers(alpha):
    target = INITIAL * RIGHT / PASS_RATE
    exact = gradient_of(alpha_divergence(alpha, target))
    found = enumerated(AlphaDPG(alpha, WIDE))
    assert torch.allclose(found, -exact, rtol=1e-9, atol=1e-12 / (1 - alpha))


def test_alpha_of_0_is_the_forward_kl():
    target = INITIAL * RIGHT / PASS_RATE
    inside = target > 0

    def forward_kl(likely):
        return (target[inside] * (target[inside] / likely[inside]).log()).sum()

    found = enumerated(AlphaDPG(0.0, WIDE))
    assert torch.allclose(found, -gradient_of(forward_kl), rtol=1e-12, atol=1e-15)


def test_alpha_near_1_is_the_reverse_kl_where_every_answer_is_right():
    # The other 0.6 of the initial policy lie on answers that this policy cannot give.
    target = INITIAL / INITIAL.sum()
    everything = torch.ones(4, dtype=torch.float64)
    groups, weights = all_groups(3)
    initial = (target * PASS_RATE).log()[groups]
    samples = read(probabilities().log()[groups], initial)
    term = AlphaDPG(1 - 1e-7, WIDE)
    found = expected_gradient(term(everything[groups], samples), groups, weights)
    exact = gradient_of(lambda likely: (likely * (likely / target).log()).sum())
    # exp(e x) - 1 over e is x + e x^2 / 2, and |x| is below 3.
    assert torch.allclose(found, -exact, rtol=0, atol=1e-6)


def test_alpha_near_1_weights_wrong_answers_as_rewards_do():
    # (1 - alpha) R is 0 for right answers and -1 for wrong ones, but for (1 - alpha) x, |x| < 3.
    groups, _ = all_groups(3)
    samples = read(probabilities().log()[groups], INITIAL.log()[groups])
    found = (1 - 0.9999) * AlphaDPG(0.9999, WIDE)(RIGHT[groups], samples)
    plain = GroupAdvantage("none")(RIGHT[groups]) * 3 / 2
    assert torch.allclose(found, plain, rtol=0, atol=2 * 3 * 1e-4)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_another_estimate_of_the_pass_rate_weights_the_whole_problem(alpha):
    # (0 + 1) / (8 + 2) instead of 0.4.
    found = enumerated(AlphaDPG(alpha, WIDE), correct=0)
    exact = enumerated(AlphaDPG(alpha, WIDE))
    assert torch.allclose(found, 4 ** (1 - alpha) * exact, rtol=1e-9, atol=1e-12 / (1 - alpha))


def test_pseudo_rewards_by_hand():
    ratios = torch.tensor([4.0, 1.0, 0.25, 0.0], dtype=torch.float64).log()
    assert alpha_pseudo_rewards(ratios, 0.0).tolist() == pytest.approx([3, 0, -0.75, -1])
    assert alpha_pseudo_rewards(ratios, 0.5).tolist() == pytest.approx([2, 0, -1, -2])
    assert alpha_pseudo_rewards(ratios, 1.0).tolist() == ratios.tolist()
    near = alpha_pseudo_rewards(ratios[:3], 1 - 1e-9)
    assert torch.allclose(near, ratios[:3], rtol=1e-8, atol=0)


def test_advantages_by_hand():
    # p = 0.2 / 0.4 = 0.5 against 0.125, 0.5 and 2 ** -13: sqrt(p / pi) is 2, 1 and 64.
    drawn = torch.tensor([[0.125, 0.5, 2**-13, 0.5]], dtype=torch.float64).log()
    initial = torch.full((1, 4), log(0.2), dtype=torch.float64)
    rewards = torch.tensor([[1.0, 1.0, 1.0, 0.0]], dtype=torch.float64)
    # R = 2 (2 - 1), 2 (1 - 1), 2 (11 - 1) for clip = 10, and -2; their sum is 20.
    found = AlphaDPG()(rewards, read(drawn, initial))
    by_hand = [2 - 18 / 3, 0 - 20 / 3, 20 - 0 / 3, -2 - 22 / 3]
    assert found[0].tolist() == pytest.approx(by_hand, rel=1e-12)
    # With clip = 0.5 the first is held as well: R = 1, 0, 1, -2.
    found = AlphaDPG(clip=0.5)(rewards, read(drawn, initial))
    assert found[0].tolist() == pytest.approx([1 + 1 / 3, 0, 1 + 1 / 3, -2 - 2 / 3], abs=1e-12)
    # A bound above 63 holds nothing: R = 2, 0, 126, -2.
    found = AlphaDPG(clip=64.0)(rewards, read(drawn, initial))
    assert found[0, 2].item() == pytest.approx(126 - (2 + 0 - 2) / 3, rel=1e-12)


def test_an_answer_that_the_policy_hardly_gives_stays_finite():
    drawn = torch.tensor([[-500.0, -1.0]])
    rewards = torch.tensor([[1.0, 0.0]])
    found = AlphaDPG(0.0)(rewards, read(drawn, torch.full((1, 2), -1.0)))
    # R = 10 and -1, and each is the other's baseline.
    assert found[0].tolist() == pytest.approx([11.0, -11.0], rel=1e-6)


def test_the_pass_rate_is_never_0_nor_1():
    drawn = torch.full((1, 2), -1.0, dtype=torch.float64)
    rewards = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    for correct, rate in ((0, 0.1), (8, 0.9)):
        found = AlphaDPG(0.0)(rewards, read(drawn, drawn, correct))
        assert found[0, 0].item() == pytest.approx(1 / rate, rel=1e-12)


def test_each_group_has_the_pass_rate_of_its_problem():
    drawn = torch.full((2, 2), -1.0, dtype=torch.float64)
    rewards = torch.tensor([[1.0, 0.0]] * 2, dtype=torch.float64)
    samples = GroupSamples(
        logprobs=drawn, ref_logprobs=drawn, base_correct=torch.tensor([1, 3]), base_samples=8
    )
    assert AlphaDPG(0.0)(rewards, samples)[:, 0].tolist() == pytest.approx([5, 2.5], rel=1e-12)


def test_wrong_answers_alone_say_nothing_and_right_ones_alone_do():
    logprobs = torch.tensor([[-1.0, -2.0, -4.0]])
    samples = read(logprobs, torch.full((1, 3), -2.0))
    assert AlphaDPG(0.3)(torch.zeros(1, 3), samples).tolist() == [[0.0] * 3]
    found = AlphaDPG(0.3)(torch.ones(1, 3), samples)[0].tolist()
    assert found == sorted(found)
    assert found[0] < 0 < found[2]
    assert sum(found) == pytest.approx(0, abs=1e-5)


def test_a_float32_answer_of_a_thousand_tokens_is_compared_to_a_thousandth():
    # Log-probs near -1000 are 6e-5 apart in float32.
    samples = read(torch.tensor([[-1000.5, -1000.0]]), torch.tensor([[-1000.0, -1000.0]]))
    found = AlphaDPG(0.0)(torch.ones(1, 2), samples)
    assert found[0, 0].item() == pytest.approx((exp(0.5) - 1) / PASS_RATE, rel=1e-3)


def test_what_makes_no_sense_is_refused():
    for alpha in (-0.1, 1.0, float("nan")):
        with pytest.raises(SettingsError, match=f"at least 0 and below 1, got {alpha}"):
            AlphaDPG(alpha)
    for clip in (0.0, float("inf"), float("nan")):
        with pytest.raises(SettingsError, match=f"finite and above 0, got {clip}"):
            AlphaDPG(clip=clip)
    some = torch.zeros(1, 2)
    with pytest.raises(DataError, match="log-probs and the initial policy's, which are not both"):
        AlphaDPG()(some, GroupSamples(logprobs=some))
    with pytest.raises(DataError, match="alpha_dpg reads the initial policy's right answers"):
        AlphaDPG()(some, GroupSamples(logprobs=some, ref_logprobs=some))
