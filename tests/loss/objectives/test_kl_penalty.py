import math

import pytest
import torch

from dph.errors import SettingsError
from dph.loss.objectives import kl_penalty

# Expected values and gradients: tests/loss/divergences/test_policy_estimators.py.


@pytest.mark.parametrize(
    ("estimator", "value", "gradient"),
    [("k2", 2.0, -2.0), ("k3", math.exp(2) - 1 - 2, 1 - math.exp(2))],
)
def test_a_token_the_policy_likes_less_than_the_reference(estimator, value, gradient):
    logprobs = torch.tensor([-3.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    penalty = kl_penalty(logprobs, reference, estimator=estimator)
    penalty.sum().backward()
    assert penalty.item() == pytest.approx(value, rel=1e-14)
    assert logprobs.grad.item() == pytest.approx(gradient, rel=1e-14)
    assert reference.grad is None


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_both_are_half_the_square_near_agreement(estimator):
    x = torch.tensor([1e-6, -1e-6], dtype=torch.float64)
    penalty = kl_penalty(x, torch.zeros_like(x), estimator=estimator)
    torch.testing.assert_close(penalty, x.square() / 2, rtol=1e-6, atol=0)


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_low_precision_is_upcast_and_extremes_stay_finite(estimator):
    logprobs = torch.tensor([-80.0, 0.0, 80.0], dtype=torch.bfloat16, requires_grad=True)
    penalty = kl_penalty(logprobs, torch.zeros(3), estimator=estimator)
    penalty.sum().backward()
    assert penalty.dtype == torch.float32
    assert torch.isfinite(penalty).all()
    assert torch.isfinite(logprobs.grad).all()


@pytest.mark.usefixtures("no_type_checks")
def test_an_unknown_estimator_is_refused():
    with pytest.raises(SettingsError, match="'k2' or 'k3', got 'k1'"):
        kl_penalty(torch.zeros(1), torch.zeros(1), estimator="k1")
