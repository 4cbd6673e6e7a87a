"""Penalties on log-probs, on whole distributions and on lengths."""

import math
from typing import get_args

import pytest
import torch

from dph.errors import SettingsError
from dph.loss.objectives import (
    EntropyBonus,
    ExactForwardKL,
    ExactReverseKL,
    VocabularyPenalty,
    kl_penalty,
    overlong_penalty,
)
from dph.loss.objectives.penalties import Estimator

# Expected values and gradients of the estimators: tests/loss/divergences/test_policy_estimators.py.


@pytest.mark.parametrize(
    ("estimator", "value", "gradient"),
    [
        ("k2", 2.0, -2.0),
        ("k3", math.exp(2) - 1 - 2, 1 - math.exp(2)),
        ("unbiased", (math.exp(2) - 1 - 2) / 4, -2.0 / 4),  # pi / pi_old = 1 / 4
    ],
)
def test_a_token_the_policy_likes_less_than_the_reference(estimator, value, gradient):
    logprobs = torch.tensor([-3.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    old = (logprobs + math.log(4)).detach().requires_grad_()
    penalty = kl_penalty(logprobs, reference, old, estimator=estimator)
    penalty.sum().backward()
    assert penalty.item() == pytest.approx(value, rel=1e-14)
    assert logprobs.grad.item() == pytest.approx(gradient, rel=1e-14)
    assert reference.grad is None
    assert old.grad is None


def test_far_below_the_reference_unbiased_keeps_the_gradient_that_autograd_loses_in_float32():
    logprobs, reference = torch.tensor([-31.0], requires_grad=True), torch.tensor([-1.0])
    kl_penalty(logprobs, reference, estimator="unbiased").sum().backward()
    assert logprobs.grad.item() == -30.0
    logprobs.grad = None
    ratio = (logprobs - logprobs.detach()).exp()
    (ratio * kl_penalty(logprobs, reference, estimator="k3")).sum().backward()
    assert logprobs.grad.item() != pytest.approx(-30.0, abs=1.0)


@pytest.mark.parametrize("estimator", get_args(Estimator))
def test_all_are_half_the_square_near_agreement_and_finite_at_extremes(estimator):
    x = torch.tensor([1e-6, -1e-6], dtype=torch.float64)
    penalty = kl_penalty(x, torch.zeros_like(x), estimator=estimator)
    torch.testing.assert_close(penalty, x.square() / 2, rtol=1e-6, atol=0)
    logprobs = torch.tensor([-80.0, 0.0, 80.0], dtype=torch.bfloat16, requires_grad=True)
    penalty = kl_penalty(logprobs, torch.zeros(3), estimator=estimator)
    penalty.sum().backward()
    assert penalty.dtype == torch.float32
    assert torch.isfinite(penalty).all()
    assert torch.isfinite(logprobs.grad).all()


@pytest.mark.parametrize(
    ("penalty", "reads"),
    [(ExactReverseKL(), True), (ExactForwardKL(), True), (EntropyBonus(), False)],
)
def test_penalties_of_whole_distributions_say_whether_they_need_the_initial_policy(penalty, reads):
    assert isinstance(penalty, VocabularyPenalty)
    assert getattr(penalty, "reads_reference", False) is reads


@pytest.fixture
def tables():
    torch.manual_seed(0)
    logits = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    reference = torch.randn(3, 7, dtype=torch.float64).log_softmax(-1)
    return logits, reference


def test_the_exact_reverse_kl_is_the_mean_of_unbiased_in_value_and_gradient(tables):
    logits, reference = tables
    log_pi = logits.log_softmax(-1)
    exact = ExactReverseKL().over_vocabulary(log_pi, reference)
    values = kl_penalty(log_pi, reference, estimator="unbiased")
    mean = (logits.detach().softmax(-1) * values).sum(-1)  # over every token that may be drawn
    torch.testing.assert_close(exact, mean)
    (found,) = torch.autograd.grad(exact.sum(), logits, retain_graph=True)
    (expected,) = torch.autograd.grad(mean.sum(), logits)
    torch.testing.assert_close(found, expected)


def test_the_exact_forward_kl_by_hand_and_its_gradient_the_gap_of_probabilities(tables):
    logits, reference = tables
    log_pi = logits.log_softmax(-1)
    exact = ExactForwardKL().over_vocabulary(log_pi, reference)
    by_hand = [
        sum(float(r.exp()) * float(r - p) for r, p in zip(*rows, strict=True))
        for rows in zip(reference, log_pi.detach(), strict=True)
    ]
    assert exact.tolist() == pytest.approx(by_hand)
    (found,) = torch.autograd.grad(exact.sum(), logits)
    torch.testing.assert_close(found, logits.detach().softmax(-1) - reference.exp())


def test_the_entropy_bonus_is_minus_the_entropy_with_its_gradient_written_out():
    table = torch.tensor([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]]).log()
    found = EntropyBonus().over_vocabulary(table, None).tolist()
    assert found == pytest.approx([-1.5 * math.log(2), -math.log(3), 0.0])
    torch.manual_seed(0)
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    EntropyBonus().over_vocabulary(logits.log_softmax(-1), None).sum().backward()
    p = logits.detach().softmax(-1)
    entropy = -(p * p.log()).sum(-1, keepdim=True)
    # d(-H)/d logit_v = p_v (log p_v + H)
    torch.testing.assert_close(logits.grad, p * (p.log() + entropy))
    logits = torch.tensor([[0.5, -math.inf, 0.1]], requires_grad=True)
    EntropyBonus().over_vocabulary(logits.log_softmax(-1), None).sum().backward()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(
    ("buffer", "penalty", "expected"),
    [
        (4, 1.0, [0.0, 0.0, 0.0, -0.25, -0.5, -0.75, -1.0, -1.0, -1.0]),
        (4, 0.5, [0.0, 0.0, 0.0, -0.125, -0.25, -0.375, -0.5, -0.5, -0.5]),
        (10, 1.0, [0.0, -0.5, -0.6, -0.7, -0.8, -0.9, -1.0, -1.0, -1.0]),
    ],
)
def test_the_penalty_of_length_falls_linearly_over_the_buffer(buffer, penalty, expected):
    lengths = torch.tensor([0, 5, 6, 7, 8, 9, 10, 11, 100])
    found = overlong_penalty(lengths, max_tokens=10, buffer=buffer, penalty=penalty)
    assert found.tolist() == pytest.approx(expected)


LENGTHS = torch.tensor([1])


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kl_penalty(LENGTHS, LENGTHS, estimator="k1"), "'unbiased', got 'k1'"),
        (lambda: overlong_penalty(LENGTHS, max_tokens=9, buffer=0), "buffer=0, max_tokens=9"),
        (lambda: overlong_penalty(LENGTHS, max_tokens=9, buffer=10), "buffer=10, max_tokens=9"),
        (
            lambda: overlong_penalty(LENGTHS, max_tokens=9, buffer=4, penalty=-1.0),
            "finite and at least 0, got -1.0",
        ),
    ],
)
def test_what_is_out_of_range_is_refused(make, message):
    with pytest.raises(SettingsError, match=message):
        make()
