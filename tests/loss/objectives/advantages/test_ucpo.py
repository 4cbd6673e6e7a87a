from math import exp

import pytest
import torch

from dph.errors import DataError, SettingsError
from dph.loss.objectives import GroupAdvantage, GroupSamples, UniformCorrect
from enumerated_policy import all_binary_groups


def drawn(rewards, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return GroupSamples(
        logprobs=-20 * torch.rand(rewards.shape, generator=generator, dtype=torch.float64),
        lengths=torch.randint(1, 9, rewards.shape, generator=generator),
    )


@pytest.mark.parametrize("tau", [0.2, 1.0])
@pytest.mark.parametrize("n", [4, 5, 6])
def test_right_answers_share_grpos_credit_by_their_improbability(n, tau):
    rewards = all_binary_groups(n)
    samples = drawn(rewards)
    found = UniformCorrect(tau)(rewards, samples)
    for group, values in enumerate(rewards.tolist()):
        means = (samples.logprobs[group] / samples.lengths[group]).tolist()
        right = [i for i, r in enumerate(values) if r]
        total = sum(exp(means[i]) for i in right)
        rare = {i: 1 / max(exp(means[i]) / total, 1e-6) for i in right}
        plain = GroupAdvantage()(rewards[group : group + 1])[0].tolist()
        for i in range(n):
            by_hand = plain[i]
            if i in rare:
                share = (1 - tau) / len(right) + tau * rare[i] / sum(rare.values())
                by_hand *= len(right) * share
            assert float(found[group, i]) == pytest.approx(by_hand, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0])
def test_the_sum_over_right_answers_is_grpos_and_wrong_ones_keep_theirs(tau):
    rewards = all_binary_groups(6)
    found, plain = UniformCorrect(tau)(rewards, drawn(rewards)), GroupAdvantage()(rewards)
    right = rewards == 1
    sums = [torch.where(right, values, 0.0).sum(-1) for values in (found, plain)]
    assert torch.allclose(*sums, rtol=1e-12, atol=1e-14)
    assert torch.equal(found[~right], plain[~right])


def test_probabilities_of_one_to_three_by_hand():
    # Of two right answers q is 1/4 and 3/4, so v is 4 and 4/3, shares are 3/4 and 1/4; with
    # tau = 1/2 they become 5/8 and 3/8. A without deviation is 1/3, to be shared twice.
    rewards = torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    odds = torch.tensor([[0.25, 0.75, 0.9]], dtype=torch.float64).log()
    samples = GroupSamples(logprobs=odds * 2, lengths=torch.tensor([[2, 2, 2]]))
    found = UniformCorrect(0.5, "none")(rewards, samples)
    assert found[0].tolist() == pytest.approx([2 / 3 * 5 / 8, 2 / 3 * 3 / 8, -2 / 3], rel=1e-12)


def test_equal_probabilities_and_a_share_of_0_are_grpo():
    rewards = all_binary_groups(4)
    even = GroupSamples(
        logprobs=torch.full((16, 4), -6.0, dtype=torch.float64), lengths=torch.full((16, 4), 3)
    )
    plain = GroupAdvantage()(rewards)
    assert torch.allclose(UniformCorrect(1.0)(rewards, even), plain, rtol=1e-12, atol=0)
    assert torch.equal(UniformCorrect(0.0)(rewards, drawn(rewards)), plain)


def test_an_answer_that_hardly_ever_comes_does_not_make_the_others_vanish():
    rewards = torch.tensor([[1.0, 1.0, 0.0]])
    samples = GroupSamples(
        logprobs=torch.tensor([[-1e4, 0.0, 0.0]]), lengths=torch.ones(1, 3).long()
    )
    found = UniformCorrect(0.2, "none")(rewards, samples)
    assert torch.isfinite(found).all()
    assert found[0, 1] == pytest.approx(1 / 3 * 0.8, rel=1e-5)


def test_what_makes_no_sense_is_refused():
    for tau in (-0.1, 1.1, float("nan")):
        with pytest.raises(SettingsError, match=r"tau of ucpo must lie in \[0, 1\], got"):
            UniformCorrect(tau)
    with pytest.raises(DataError, match="ucpo reads the log-probs"):
        UniformCorrect()(torch.zeros(1, 2), GroupSamples())
