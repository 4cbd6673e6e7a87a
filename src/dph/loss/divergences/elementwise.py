"""Elementwise functions that carry a hand-written derivative.

Automatic differentiation of a stable formula need not be stable: each branch of a
``torch.where`` is differentiated, and 0 * inf is NaN; a difference of two large terms is
differentiated term by term. Here value and derivative are two formulas, each as exact as it
can be.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from dph.loss.divergences.base import LOG_RATIO_BOUND
from dph.loss.divergences.precision import at_least_float32

TensorMap = Callable[[Tensor], Tensor]


class _WithDerivative(torch.autograd.Function):
    """value(x) in the forward pass, grad * derivative(x) in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: TensorMap, derivative: TensorMap) -> Tensor:
        ctx.save_for_backward(x)
        ctx.derivative = derivative
        return value(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return grad * ctx.derivative(x), None, None


def with_derivative(
    x: Float[Tensor, "*shape"], value: TensorMap, derivative: TensorMap
) -> Float[Tensor, "*shape"]:
    """Apply ``value`` elementwise, in float32 at least, with ``derivative`` as its gradient."""
    apply: Callable[..., Tensor] = _WithDerivative.apply
    return apply(at_least_float32(x), value, derivative)


def apply_generator(
    log_ratio: Float[Tensor, "*shape"], value: TensorMap, derivative: TensorMap
) -> Float[Tensor, "*shape"]:
    """As ``with_derivative``, continued along the tangent above ``LOG_RATIO_BOUND``."""

    def continued(x: Tensor) -> Tensor:
        bounded = x.clamp(max=LOG_RATIO_BOUND)
        # Not x - bounded, which is NaN at x = -inf.
        excess = (x - LOG_RATIO_BOUND).clamp(min=0.0)
        return value(bounded) + derivative(bounded) * excess

    def slope(x: Tensor) -> Tensor:
        return derivative(x.clamp(max=LOG_RATIO_BOUND))

    return with_derivative(log_ratio, continued, slope)
