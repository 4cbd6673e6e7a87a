from itertools import product
from math import log, sqrt

import pytest
import torch

from dph.errors import DataError, SettingsError
from dph.loss.objectives import FlowRL, GroupSamples, group_advantages
from enumerated_texts import INITIAL, OLD, REWARDS, TEXTS, lengths, target, text_logprobs


def read(drawn, initial, tokens):
    return GroupSamples(logprobs=drawn, lengths=tokens, ref_logprobs=initial)


def of_texts(term, groups, policy):
    """Advantages of groups of texts (a row each) that a policy drew, given by its log-probs."""
    initial = text_logprobs(torch.tensor(INITIAL, dtype=torch.float64))
    rewards = torch.tensor(REWARDS, dtype=torch.float64)
    samples = read(policy[groups], initial[groups], lengths()[groups])
    return term(rewards[groups], samples)


def all_groups(n):
    return torch.tensor(list(product(range(len(TEXTS)), repeat=n)))


def test_advantages_by_hand():
    # Right, wrong, wrong, right: r - mean is 1/2 or -1/2, the unbiased deviation sqrt(1/3).
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    tokens = torch.tensor([[2, 4, 1, 2]])
    drawn = torch.tensor([[-3.0, -8.0, -1.0, -2.0]], dtype=torch.float64)
    initial = torch.tensor([[-4.0, -2.0, -1.5, -2.0]], dtype=torch.float64)
    # (log pi_0 - log pi_old) / |y| is -1/2, 3/2, -1/2, 0, on average 1/8.
    pull = 0.5 / (sqrt(1 / 3) + 1e-6)
    moved = [-0.625, 1.375, -0.625, -0.125]
    for beta in (0.0, 0.5, 15.0):
        found = FlowRL(beta)(rewards, read(drawn, initial, tokens))[0].tolist()
        signs = [1, -1, -1, 1]
        expected = [beta * s * pull + m for s, m in zip(signs, moved, strict=True)]
        assert found == pytest.approx(expected, rel=1e-12)
    found = FlowRL(2.0, scale="none")(rewards, read(drawn, initial, tokens))[0].tolist()
    assert found == pytest.approx([s + m for s, m in zip(signs, moved, strict=True)], rel=1e-12)


def test_while_the_policy_is_the_initial_one_it_is_grpos_advantage_times_beta():
    rewards = torch.tensor([[1.0, 0.0, 0.3], [1.0, 1.0, 1.0]], dtype=torch.float64)
    same = torch.tensor([[-3.0, -8.0, -1.0], [-2.0, -1.0, -5.0]], dtype=torch.float64)
    found = FlowRL(7.0)(rewards, read(same, same, torch.tensor([[2, 4, 1], [3, 3, 3]])))
    assert torch.allclose(found, 7 * group_advantages(rewards), rtol=1e-12, atol=1e-12)


def test_groups_of_equal_rewards_are_drawn_back_to_the_initial_policy():
    drawn = torch.tensor([[-1.0, -2.0, -4.0]], dtype=torch.float64)
    initial = torch.tensor([[-2.0, -2.0, -2.0]], dtype=torch.float64)
    for reward in (0.0, 1.0):
        rewards = torch.full((1, 3), reward, dtype=torch.float64)
        found = FlowRL()(rewards, read(drawn, initial, torch.ones(1, 3).long()))[0].tolist()
        assert found == pytest.approx([-4 / 3, -1 / 3, 5 / 3], rel=1e-12)


def test_the_groups_own_log_z_is_the_one_that_fits_its_residuals_best():
    # What a head would be fitted to: sum of (log Z + log pi / |y| - beta r - log pi_0 / |y|)^2.
    beta, policy = 3.0, text_logprobs(torch.tensor(OLD, dtype=torch.float64))
    initial = text_logprobs(torch.tensor(INITIAL, dtype=torch.float64))
    for group in all_groups(3)[::10]:
        rhat = group_advantages(torch.tensor(REWARDS, dtype=torch.float64)[group][None])[0]
        open_ = (policy - initial)[group] / lengths()[group] - beta * rhat
        # Least squares of one constant, by its normal equation.
        fitted = torch.linalg.lstsq(torch.ones(3, 1, dtype=torch.float64), -open_[:, None]).solution
        found = of_texts(FlowRL(beta), group[None], policy)[0]
        assert torch.allclose(found, -(fitted[0, 0] + open_), rtol=0, atol=1e-12)


@pytest.mark.parametrize("beta", [0.1, 1.0, 15.0])
def test_at_the_target_no_group_of_two_has_an_advantage(beta):
    # Of two answers a right one is +1/sqrt(2) and a wrong one -1/sqrt(2), but for the 1e-6.
    pull = 0.5 / (sqrt(0.5) + 1e-6)
    policy = target(beta, [pull if r else -pull for r in REWARDS])
    assert policy.logsumexp(0).item() == pytest.approx(0, abs=1e-12)
    found = of_texts(FlowRL(beta), all_groups(2), policy)
    assert found.abs().max() < 1e-12 * max(1, beta)
    assert of_texts(FlowRL(beta * 1.1), all_groups(2), policy).abs().max() > 0.05 * beta


@pytest.mark.parametrize("n", [2, 3])
def test_at_the_target_of_plain_rewards_no_group_of_any_size_has_an_advantage(n):
    policy = target(2.0, REWARDS)
    found = of_texts(FlowRL(2.0, scale="none"), all_groups(n), policy)
    assert found.abs().max() < 1e-12


def test_beta_of_0_has_the_initial_policy_as_its_target_and_no_other():
    initial = text_logprobs(torch.tensor(INITIAL, dtype=torch.float64))
    assert of_texts(FlowRL(0.0), all_groups(2), initial).abs().max() == 0
    drawn = text_logprobs(torch.tensor(OLD, dtype=torch.float64))
    assert of_texts(FlowRL(0.0), all_groups(2), drawn).abs().max() > 0.1


def test_a_float32_answer_of_a_thousand_tokens_is_compared_to_a_millionth_a_token():
    # Log-probs near -1000 are 6e-5 apart in float32, and a token's share is a thousandth of that.
    samples = read(
        torch.tensor([[-1000.5, -1000.0]]), torch.full((1, 2), -1000.0), torch.full((1, 2), 1000)
    )
    found = FlowRL()(torch.ones(1, 2), samples)[0].tolist()
    assert found == pytest.approx([0.00025, -0.00025], abs=1e-6)


def test_the_target_of_one_token_is_the_softmax_of_reward_over_the_initial_policy():
    # pi = pi_0 exp(beta r) / Z, pi_0 = 1/4, 3/4: with beta = log 3 and r = 1, 0 both are 1/2.
    initial = torch.tensor([[0.25, 0.75]], dtype=torch.float64).log()
    samples = read(
        torch.full((1, 2), log(0.5), dtype=torch.float64), initial, torch.ones(1, 2).long()
    )
    rewards = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    found = FlowRL(log(3), scale="none")(rewards, samples)
    assert found.abs().max() < 1e-15


@pytest.mark.usefixtures("no_type_checks")
def test_an_unknown_scale_is_refused():
    with pytest.raises(SettingsError, match="'std' or 'none', got 'mean'"):
        FlowRL(scale="mean")


def test_what_makes_no_sense_is_refused():
    for beta in (-0.1, float("inf"), float("nan")):
        with pytest.raises(SettingsError, match=f"finite and at least 0, got {beta}"):
            FlowRL(beta)
    some = torch.zeros(1, 2)
    with pytest.raises(DataError, match="flowrl reads the samples' log-probs and the initial"):
        FlowRL()(some, GroupSamples(logprobs=some, lengths=torch.ones(1, 2).long()))
    with pytest.raises(DataError, match="which are not both given"):
        FlowRL()(some, GroupSamples(ref_logprobs=some))
