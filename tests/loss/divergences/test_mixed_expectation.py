# Every sequence stands once as a policy row (weight pi) and once as a rehearsal row (pi_ref), so
# the mixed loss is its own exact expectation.

import pytest
import torch

from dph.loss.divergences import ForwardKL, JensenShannon
from dph.loss.objectives import LossBatch, mixed_loss
from short_objective import objective_of

from . import oracle
from .oracle import REF_LOGPROBS, every_policy

ROWS = len(oracle.SEQUENCES)
REWARDS = torch.linspace(-1, 2, ROWS, dtype=torch.float64).sin()


def expected_loss(policy, **terms):
    logprobs = policy.token_logprobs()
    batch = LossBatch(
        logprobs=torch.cat([logprobs, logprobs]),
        old_logprobs=torch.cat([logprobs, logprobs]).detach(),
        ref_logprobs=torch.cat([REF_LOGPROBS, REF_LOGPROBS]),
        mask=torch.ones(2 * ROWS, oracle.TOKENS, dtype=torch.bool),
        advantages=torch.cat([REWARDS, REWARDS]),
        source=(torch.arange(2 * ROWS) >= ROWS).long(),
        weights=torch.cat([policy.probabilities(), oracle.REFERENCE.probabilities()]).detach(),
    )
    return mixed_loss(batch, objective_of(**terms))


@every_policy
def test_the_policy_term_descends_to_a_higher_expected_reward(policy):
    reward = (policy.probabilities() * REWARDS).sum()
    loss = expected_loss(policy)
    oracle.assert_same(policy.gradient(loss.total), -policy.gradient(reward))


@every_policy
@pytest.mark.parametrize(
    ("divergence", "definition"),
    [(ForwardKL(), oracle.forward_kl), (JensenShannon(), oracle.twice_jensen_shannon)],
    ids=["forward_kl", "jensen_shannon"],
)
def test_the_total_descends_on_minus_reward_plus_eta_times_the_divergence(
    policy, divergence, definition
):
    loss = expected_loss(policy, divergence=divergence, eta=0.7)
    truth = 0.7 * oracle.token_truth(definition, policy, prefixes=oracle.REFERENCE)
    truth = truth - (policy.probabilities() * REWARDS).sum()
    oracle.assert_same(policy.gradient(loss.total), policy.gradient(truth))


@every_policy
@pytest.mark.parametrize(
    ("estimator", "definition"),
    [("k2", oracle.reverse_kl), ("k3", oracle.forward_kl), ("unbiased", oracle.reverse_kl)],
)
def test_the_penalty_has_the_gradient_of_the_kl_that_its_estimator_stands_for(
    policy, estimator, definition
):
    loss = expected_loss(policy, kl_coefficient=0.7, kl_estimator=estimator)
    truth = 0.7 * oracle.token_truth(definition, policy, prefixes=policy)
    truth = truth - (policy.probabilities() * REWARDS).sum()
    oracle.assert_same(policy.gradient(loss.total), policy.gradient(truth))


@every_policy
def test_js_by_definition_is_each_half_at_the_prefixes_of_its_own_samples(policy):
    loss = expected_loss(policy, js_definition=True, eta=0.7)
    truth = oracle.token_truth(
        oracle.reference_to_mixture, policy, prefixes=oracle.REFERENCE
    ) + oracle.token_truth(oracle.policy_to_mixture, policy, prefixes=policy)
    oracle.assert_same(loss.anchors["rehearsal"], truth)
    oracle.assert_same(policy.gradient(loss.anchors["rehearsal"]), policy.gradient(truth))
