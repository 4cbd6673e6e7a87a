import math

import pytest
import torch

from dph.loss.objectives import EntropyBonus, VocabularyPenalty


def test_it_sees_whole_distributions_and_needs_no_other_model():
    assert isinstance(EntropyBonus(), VocabularyPenalty)
    assert not getattr(EntropyBonus(), "reads_reference", False)


def test_the_value_is_minus_the_entropy():
    table = torch.tensor([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]]).log()
    found = EntropyBonus().over_vocabulary(table, None).tolist()
    assert found == pytest.approx([-1.5 * math.log(2), -math.log(3), 0.0])


def test_the_gradient_is_that_of_the_entropy_written_out():
    torch.manual_seed(0)
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    EntropyBonus().over_vocabulary(logits.log_softmax(-1), None).sum().backward()
    p = logits.detach().softmax(-1)
    entropy = -(p * p.log()).sum(-1, keepdim=True)
    # d(-H)/d logit_v = p_v (log p_v + H)
    torch.testing.assert_close(logits.grad, p * (p.log() + entropy))


def test_a_step_down_its_gradient_makes_the_distribution_wider():
    logits = torch.tensor([[2.0, 0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    before = EntropyBonus().over_vocabulary(logits.log_softmax(-1), None)
    (gradient,) = torch.autograd.grad(before.sum(), logits)
    after = EntropyBonus().over_vocabulary((logits - 0.1 * gradient).log_softmax(-1), None)
    assert -after > -before


def test_tokens_that_are_ruled_out_give_finite_gradients():
    logits = torch.tensor([[0.5, -math.inf, 0.1]], requires_grad=True)
    EntropyBonus().over_vocabulary(logits.log_softmax(-1), None).sum().backward()
    assert logits.grad.isfinite().all()
