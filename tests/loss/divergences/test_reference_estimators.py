"""Expected value and expected gradient of every estimator on stored reference samples."""

import pytest
import torch

from dph.loss.divergences import Alpha, ForwardKL, JensenShannon, ReverseKL
from dph.loss.divergences.f_divergences import reference_half

from . import oracle
from .oracle import REF_LOGPROBS, every_policy

ESTIMATORS = {
    "forward_kl nll": (ForwardKL("nll"), oracle.forward_kl),
    "forward_kl k3": (ForwardKL("k3"), oracle.forward_kl),
    "jensen_shannon": (JensenShannon(), oracle.twice_jensen_shannon),
    "alpha 0.01": (Alpha(0.01), oracle.alpha(0.01)),
    "alpha 0.3": (Alpha(0.3), oracle.alpha(0.3)),
    "alpha 0.5": (Alpha(0.5), oracle.alpha(0.5)),
    "alpha 0.7": (Alpha(0.7), oracle.alpha(0.7)),
    "alpha 0.99": (Alpha(0.99), oracle.alpha(0.99)),
    "reverse_kl": (ReverseKL(), oracle.reverse_kl),
    "reference_half nll": (lambda x: reference_half(x, form="nll"), oracle.reference_to_mixture),
    "reference_half k3": (lambda x: reference_half(x, form="k3"), oracle.reference_to_mixture),
}
REF_PROBABILITIES = oracle.REFERENCE.probabilities().detach()
CORRECT = torch.tensor([1.0, 0, 1, 1, 0, 0, 1, 1, 0] * 3, dtype=torch.float64)


@every_policy
@pytest.mark.parametrize(("divergence", "definition"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_expected_value_and_gradient_are_those_of_the_divergence(divergence, definition, policy):
    estimate = oracle.expectation(
        REF_PROBABILITIES, divergence(policy.token_logprobs() - REF_LOGPROBS)
    )
    truth = oracle.token_truth(definition, policy, prefixes=oracle.REFERENCE)
    oracle.assert_same(estimate, truth)
    oracle.assert_same(policy.gradient(estimate), policy.gradient(truth))


@every_policy
def test_token_forward_kl_is_the_forward_kl_of_whole_sequences(policy):
    token = oracle.token_truth(oracle.forward_kl, policy, prefixes=oracle.REFERENCE)
    sequence = oracle.sequence_truth(oracle.forward_kl, policy)
    oracle.assert_same(token, sequence)
    oracle.assert_same(policy.gradient(token), policy.gradient(sequence))


@pytest.mark.parametrize("definition", [oracle.twice_jensen_shannon, oracle.alpha(0.5)])
def test_token_forms_of_js_and_alpha_are_their_own_objectives(definition):
    token = oracle.token_truth(definition, oracle.FAR, prefixes=oracle.REFERENCE)
    sequence = oracle.sequence_truth(definition, oracle.FAR)
    oracle.assert_different(oracle.FAR.gradient(token), oracle.FAR.gradient(sequence))


def keep_correct_only() -> torch.Tensor:
    kept = REF_PROBABILITIES * CORRECT
    return kept / kept.sum()


def success_tables() -> list[torch.Tensor]:
    """s(prefix): how often the reference ends right after it, for 0 ... TOKENS tokens."""
    tables = [CORRECT]
    for t in reversed(range(oracle.TOKENS)):
        conditional = oracle.REFERENCE.logits[t].softmax(-1).detach()
        tables.append((conditional * tables[-1].reshape(conditional.shape)).sum(-1))
    return tables[::-1]


def success_under_the_policy(policy: oracle.Policy) -> torch.Tensor:
    """Sum over steps of E[ V(prefix) / s(prefix) ]; prefixes from the kept samples.

    V(prefix) is the mean of s after one token of the *policy*.
    """
    tables, kept = success_tables(), keep_correct_only()
    total = torch.zeros((), dtype=torch.float64)
    for t in range(oracle.TOKENS):
        pi = policy.logits[t].softmax(-1)
        value = (pi * tables[t + 1].reshape(pi.shape)).sum(-1)
        prefix = kept.reshape(oracle.VOCABULARY**t, -1).sum(1)
        # A prefix that never ends right is never kept.
        total = (
            total + torch.where(prefix > 0, prefix * value / tables[t].clamp(min=1e-300), 0).sum()
        )
    return total


@every_policy
def test_nll_on_correct_samples_has_the_gradient_of_the_kl_from_the_correct_reference(policy):
    kept = keep_correct_only()
    estimate = oracle.expectation(kept, ForwardKL("nll")(policy.token_logprobs() - REF_LOGPROBS))
    truth = -(torch.xlogy(kept, policy.probabilities()) - torch.xlogy(kept, kept)).sum()
    oracle.assert_same(policy.gradient(estimate), policy.gradient(truth))
    # The value is off by a constant: the surprise of being right, -log P_ref(correct).
    surprise = -(REF_PROBABILITIES * CORRECT).sum().log()
    oracle.assert_same(estimate, truth - surprise)


@every_policy
def test_k3_on_correct_samples_also_minimises_the_success_of_the_policy(policy):
    kept = keep_correct_only()
    log_ratio = policy.token_logprobs() - REF_LOGPROBS
    nll = oracle.expectation(kept, ForwardKL("nll")(log_ratio))
    k3 = oracle.expectation(kept, ForwardKL("k3")(log_ratio))
    bias = success_under_the_policy(policy) - oracle.TOKENS
    oracle.assert_same(k3, nll + bias)
    oracle.assert_same(policy.gradient(k3), policy.gradient(nll) + policy.gradient(bias))
    oracle.assert_different(policy.gradient(k3), policy.gradient(nll))


def test_at_the_reference_k3_on_correct_samples_rests_and_nll_moves():
    policy = oracle.Policy(
        [table.detach().clone().requires_grad_() for table in oracle.REFERENCE.logits]
    )
    log_ratio = policy.token_logprobs() - REF_LOGPROBS
    kept = keep_correct_only()
    k3 = policy.gradient(oracle.expectation(kept, ForwardKL("k3")(log_ratio)))
    nll = policy.gradient(oracle.expectation(kept, ForwardKL("nll")(log_ratio)))
    assert k3.norm() < oracle.ABSOLUTE
    assert nll.norm() > 0.1


def nucleus_reference(top_p: float) -> tuple[oracle.Policy, list[torch.Tensor]]:
    """The reference under top-p, and the nucleus of every prefix."""
    tables, nuclei = [], []
    for logits in oracle.REFERENCE.logits:
        probability = logits.softmax(-1).detach()
        ranked, order = probability.sort(descending=True)
        kept = torch.zeros_like(probability).scatter(
            1, order, (ranked.cumsum(-1) - ranked < top_p).double()
        )
        nuclei.append(kept)
        tables.append(probability.log().masked_fill(kept == 0, -1e9))
    return oracle.Policy(tables), nuclei


@every_policy
def test_top_p_storage_biases_k3_by_the_mass_inside_the_nucleus_and_leaves_nll_right(policy):
    truncated, nuclei = nucleus_reference(0.7)
    stored = truncated.probabilities()
    log_ratio = policy.token_logprobs() - REF_LOGPROBS
    nll = oracle.expectation(stored, ForwardKL("nll")(log_ratio))
    k3 = oracle.expectation(stored, ForwardKL("k3")(log_ratio))
    truth = (torch.xlogy(stored, stored) - torch.xlogy(stored, policy.probabilities())).sum()
    oracle.assert_same(policy.gradient(nll), policy.gradient(truth))

    # E[u | prefix] = pi(nucleus) / pi_ref(nucleus): k3 pushes mass out of the nucleus.
    bias = torch.zeros((), dtype=torch.float64)
    for t, nucleus in enumerate(nuclei):
        inside = (policy.logits[t].softmax(-1) * nucleus).sum(-1)
        inside_reference = (oracle.REFERENCE.logits[t].softmax(-1).detach() * nucleus).sum(-1)
        prefix = oracle.prefix_probabilities(truncated, t)
        bias = bias + (prefix * (inside / inside_reference - 1)).sum()
    oracle.assert_same(k3, nll + bias)
    oracle.assert_same(policy.gradient(k3), policy.gradient(nll) + policy.gradient(bias))
    oracle.assert_different(policy.gradient(k3), policy.gradient(nll))
