import math

import pytest
import torch

from dph.loss.divergences.base import categorical_kl


def by_hand(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


P, Q = [0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4]


def logs(values):
    return torch.tensor(values, dtype=torch.float64).log()


def test_the_value_is_the_sum_written_out_and_its_direction_matters():
    assert float(categorical_kl(logs(P), logs(Q))) == pytest.approx(by_hand(P, Q), rel=1e-12)
    assert float(categorical_kl(logs(Q), logs(P))) == pytest.approx(by_hand(Q, P), rel=1e-12)
    assert by_hand(P, Q) != pytest.approx(by_hand(Q, P), rel=1e-2)


def test_outcomes_without_probability_add_nothing_and_give_finite_gradients():
    p = logs([0.5, 0.5, 0.0, 0.0])
    logits = torch.tensor([0.3, -0.2, 1.0, -math.inf], dtype=torch.float64, requires_grad=True)
    value = categorical_kl(p, logits.log_softmax(-1))
    assert value.isfinite()
    value.backward()
    q = logits.detach().softmax(-1)
    torch.testing.assert_close(logits.grad, q - p.exp())
    other = torch.tensor([0.3, -0.2, 1.0, -math.inf], dtype=torch.float64, requires_grad=True)
    categorical_kl(other.log_softmax(-1), logs(Q)).backward()
    assert other.grad.isfinite().all()


def test_mass_where_the_other_has_none_costs_without_bound():
    assert categorical_kl(logs(P), logs([1.0, 0.0, 0.0, 0.0])) == math.inf


def test_gradients_of_both_arguments_are_those_of_finite_differences():
    torch.manual_seed(0)
    logits = [torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2)]

    def of(a, b):
        return categorical_kl(a.log_softmax(-1), b.log_softmax(-1))

    assert torch.autograd.gradcheck(of, logits)
