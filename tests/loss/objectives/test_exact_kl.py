"""Exact KLs on the policy's samples, against enumeration of every token."""

import pytest
import torch

from dph.loss.objectives import ExactForwardKL, ExactReverseKL, VocabularyPenalty, kl_penalty


@pytest.fixture
def tables():
    torch.manual_seed(0)
    logits = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    reference = torch.randn(3, 7, dtype=torch.float64).log_softmax(-1)
    return logits, reference


@pytest.mark.parametrize("penalty", [ExactReverseKL(), ExactForwardKL()])
def test_they_see_whole_distributions_and_need_the_initial_policy(penalty):
    assert isinstance(penalty, VocabularyPenalty)
    assert penalty.reads_reference


def expected_over_samples(logits, values):
    """The mean over every token that the policy may draw at a position."""
    return (logits.detach().softmax(-1) * values).sum(-1)


def test_the_reverse_kl_is_the_mean_of_its_estimator_over_all_tokens(tables):
    logits, reference = tables
    log_pi = logits.log_softmax(-1)
    found = ExactReverseKL().over_vocabulary(log_pi, reference)
    k3 = kl_penalty(log_pi, reference, estimator="k3")
    torch.testing.assert_close(found, expected_over_samples(logits, k3))


def test_the_reverse_gradient_is_the_mean_gradient_of_k2(tables):
    logits, reference = tables
    exact = ExactReverseKL().over_vocabulary(logits.log_softmax(-1), reference).sum()
    (found,) = torch.autograd.grad(exact, logits)
    k2 = kl_penalty(logits.log_softmax(-1), reference, estimator="k2")
    (expected,) = torch.autograd.grad(expected_over_samples(logits, k2).sum(), logits)
    torch.testing.assert_close(found, expected)


def test_the_forward_gradient_is_the_mean_gradient_of_k3_and_the_gap_of_probabilities(tables):
    logits, reference = tables
    exact = ExactForwardKL().over_vocabulary(logits.log_softmax(-1), reference)
    (found,) = torch.autograd.grad(exact.sum(), logits)
    torch.testing.assert_close(found, logits.detach().softmax(-1) - reference.exp())
    k3 = kl_penalty(logits.log_softmax(-1), reference, estimator="k3")
    (expected,) = torch.autograd.grad(expected_over_samples(logits, k3).sum(), logits)
    torch.testing.assert_close(found, expected)


def test_the_forward_value_is_the_mean_log_ratio_over_the_initial_policys_tokens(tables):
    logits, reference = tables
    log_pi = logits.log_softmax(-1)
    found = ExactForwardKL().over_vocabulary(log_pi, reference)
    by_hand = [
        sum(float(r.exp()) * float(r - p) for r, p in zip(*rows, strict=True))
        for rows in zip(reference, log_pi.detach(), strict=True)
    ]
    assert found.tolist() == pytest.approx(by_hand)
