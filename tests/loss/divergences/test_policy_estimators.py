"""Expected value and expected gradient of the estimators on samples of the policy itself."""

import pytest
import torch

from dph.loss.divergences.f_divergences import policy_half
from dph.loss.objectives import importance_ratio, kl_penalty

from . import oracle
from .oracle import REF_LOGPROBS, every_policy

OLD = oracle.make_policy(3, near=oracle.REFERENCE, scale=0.5)


def on_policy(policy, token_values):
    return oracle.expectation(policy.probabilities(), token_values)


@every_policy
def test_k1_as_a_loss_has_no_expected_gradient(policy):
    estimate = on_policy(policy, policy.token_logprobs() - REF_LOGPROBS)
    oracle.assert_same(estimate, oracle.token_truth(oracle.reverse_kl, policy, prefixes=policy))
    assert policy.gradient(estimate).norm() < oracle.ABSOLUTE


@every_policy
def test_k2_as_a_loss_has_the_gradient_of_the_reverse_kl_at_the_policys_prefixes(policy):
    estimate = on_policy(policy, kl_penalty(policy.token_logprobs(), REF_LOGPROBS, estimator="k2"))
    truth = oracle.token_truth(oracle.reverse_kl, policy, prefixes=policy)
    oracle.assert_same(policy.gradient(estimate), policy.gradient(truth))
    oracle.assert_different(estimate, truth)  # its value is another one


@every_policy
def test_k3_as_a_loss_has_the_value_of_the_reverse_and_the_gradient_of_the_forward_kl(policy):
    estimate = on_policy(policy, kl_penalty(policy.token_logprobs(), REF_LOGPROBS, estimator="k3"))
    reverse = oracle.token_truth(oracle.reverse_kl, policy, prefixes=policy)
    forward = oracle.token_truth(oracle.forward_kl, policy, prefixes=policy)
    oracle.assert_same(estimate, reverse)
    oracle.assert_same(policy.gradient(estimate), policy.gradient(forward))
    oracle.assert_different(policy.gradient(estimate), policy.gradient(reverse))


@every_policy
@pytest.mark.parametrize("old", [None, OLD], ids=["its own samples", "samples of another"])
def test_unbiased_has_the_value_and_the_gradient_of_the_reverse_kl_whoever_drew(policy, old):
    drew = old or policy
    logprobs, old_logprobs = policy.token_logprobs(), drew.token_logprobs()
    estimates = {
        name: oracle.expectation(
            drew.probabilities(), kl_penalty(logprobs, REF_LOGPROBS, old_logprobs, estimator=name)
        )
        for name in ("k2", "k3", "unbiased")
    }
    truth = oracle.token_truth(oracle.reverse_kl, policy, prefixes=drew)
    oracle.assert_same(estimates["unbiased"], truth)
    gradients = {name: policy.gradient(estimate) for name, estimate in estimates.items()}
    oracle.assert_same(gradients["unbiased"], policy.gradient(truth))
    oracle.assert_different(gradients["k3"], policy.gradient(truth))
    if old is not None:
        oracle.assert_different(gradients["k2"], policy.gradient(truth))


@every_policy
def test_only_sequence_sums_give_the_gradient_of_the_reverse_kl_of_whole_sequences(policy):
    sequence = policy.token_logprobs().sum(1, keepdim=True)
    reference = REF_LOGPROBS.sum(1, keepdim=True)
    truth = policy.gradient(oracle.sequence_truth(oracle.reverse_kl, policy))
    k2 = on_policy(policy, kl_penalty(sequence, reference, estimator="k2"))
    k1_in_the_reward = on_policy(policy, sequence * (sequence - reference).detach())
    by_token = on_policy(policy, kl_penalty(policy.token_logprobs(), REF_LOGPROBS, estimator="k2"))
    oracle.assert_same(policy.gradient(k2), truth)
    oracle.assert_same(policy.gradient(k1_in_the_reward), truth)
    # By token, a token gets no blame for where it leads.
    oracle.assert_different(policy.gradient(by_token), truth)


@every_policy
@pytest.mark.parametrize("on_policy", [True, False])
def test_policy_half_has_value_and_gradient_at_the_sampling_policys_prefixes(policy, on_policy):
    logprobs, old = policy.token_logprobs(), policy if on_policy else OLD
    ratio = importance_ratio(logprobs, old.token_logprobs())
    values = policy_half(logprobs - REF_LOGPROBS, ratio)
    estimate = oracle.expectation(old.probabilities(), values)
    truth = oracle.token_truth(oracle.policy_to_mixture, policy, prefixes=old)
    oracle.assert_same(estimate, truth)
    oracle.assert_same(policy.gradient(estimate), policy.gradient(truth))


@every_policy
def test_policy_half_with_a_detached_ratio_points_the_wrong_way(policy):
    values = policy_half(policy.token_logprobs() - REF_LOGPROBS, torch.ones_like(REF_LOGPROBS))
    wrong = policy.gradient(on_policy(policy, values))
    truth = policy.gradient(oracle.token_truth(oracle.policy_to_mixture, policy, prefixes=policy))
    assert torch.cosine_similarity(wrong, truth, dim=0) < -0.9


def test_a_policy_token_where_both_agree_has_no_gradient():
    logprobs = torch.tensor([-1.0, -3.0], requires_grad=True)
    ratio = (logprobs - logprobs.detach()).exp()
    policy_half(logprobs - logprobs.detach(), ratio).sum().backward()
    assert logprobs.grad.tolist() == [0.0, 0.0]
