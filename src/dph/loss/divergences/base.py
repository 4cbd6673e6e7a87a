"""The one convention that all divergences share.

Let pi be the policy being trained and pi_ref the frozen initial policy. For a stored token
y_t, sampled from **pi_ref**, write

    x = log pi(y_t | prefix) - log pi_ref(y_t | prefix)      (nats; ``log_ratio``)
    u = exp(x)
    D_f(pi || pi_ref) = E_{y ~ pi_ref}[ f(u) ],    f convex, f(1) = 0, f'(1) = 0 or -1

so the mean of ``divergence(log_ratio)`` over stored tokens estimates the divergence, and the
gradient that reaches log pi is df/dx = u f'(u).

All generators also share:

* **dtype.** float32 and float64 keep their dtype; bfloat16 and float16 are computed and returned in
  float32 (their gradient is cast back to the input's dtype).
* **Upper side.** Exact for x <= 80. Above, every generator continues along its tangent at 80:
  f(80) + (x - 80) df/dx(80), with the gradient df/dx(80). It is finite and pulls the same way,
  at one and the same place for every dtype. Only the *value* may then leave the float32 range
  (for x beyond 155 at the earliest); it becomes +inf, as it does at x = +inf.
* **Lower side.** Never clamped: there the forgetting is worst, and the gradient must remain.
* **NaN** comes only from NaN. Mask padding before the call.
* The gradient is itself differentiable (it is a formula, not a constant).
"""

from collections.abc import Callable
from functools import cache
from math import factorial, fsum
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

LOG_RATIO_BOUND: Final = 80.0
"""Nats. Above it generators are continued by their tangent; exp(80) = 5.5e34 fits float32."""


@runtime_checkable
class Divergence(Protocol):
    """An f-divergence in log space, one token at a time."""

    name: ClassVar[str]

    def __call__(self, log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return f(exp(log_ratio)) elementwise, in nats."""
        ...


@runtime_checkable
class PolicyHalf(Protocol):
    """Part of a divergence that also acts on the policy's own samples."""

    def on_policy(
        self, log_ratio: Float[Tensor, "*shape"], ratio: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """Its value on tokens of the policy; ``ratio`` is pi / pi_old with its gradient."""
        ...


# Elementwise functions with a hand-written derivative.
#
# Automatic differentiation of a stable formula need not be stable: each branch of a
# ``torch.where`` is differentiated, and 0 * inf is NaN; a difference of two large terms is
# differentiated term by term. Here value and derivative are two formulas, each as exact as it
# can be.


def at_least_float32(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return bfloat16 and float16 values as float32, everything else unchanged.

    Call it *before* subtracting log-probs: a difference of two bfloat16 numbers near -5 is a
    multiple of 2^-6 at best.
    """
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def categorical_kl(
    logprobs: Float[Tensor, "*shape outcomes"], others: Float[Tensor, "*shape outcomes"]
) -> Float[Tensor, "*shape"]:
    """KL(p || q) over the last dimension, from log p and log q, differentiable in both.

    Equation: sum over v of p(v) (log p(v) - log q(v)).
    Units: nats.
    Limits: outcomes with p(v) = 0 add nothing, q(v) = 0 or not; +inf where p(v) > 0 = q(v).

    >>> p, q = torch.tensor([0.5, 0.5, 0.0]).log(), torch.tensor([0.25, 0.25, 0.5]).log()
    >>> categorical_kl(p, q)
    tensor(0.6931)
    """
    # Mask first: 0 * (-inf + inf) is NaN.
    possible = logprobs > -torch.inf
    log_ratio = torch.where(possible, logprobs - others, 0.0)
    return (logprobs.exp() * log_ratio).sum(dim=-1)


# Power series of the alpha family around x = 0, where the closed forms cancel.
#
# Equation: with b = 1 - alpha,
#
# f(x) = sum_{n >= 2} (1 + b + ... + b^(n-2)) x^n / n!
#
# b = 0 is forward KL (expm1(x) - x) and b = 1 reverse KL (u x - expm1(x)). Every coefficient is a
# sum of positive numbers, so nothing cancels for any b in [0, 1], while the closed form (expm1(b
# x) - b expm1(x)) / (b (b - 1)) loses all digits as x -> 0, b -> 0 or b -> 1.

SERIES_RADIUS: Final = 1.0
"""Nats. Inside, the series is used; outside, the closed forms lose at most two bits."""

_LAST_POWER: Final = 20  # the next term is below 1e-18 of f at the radius


@cache
def _coefficients(b: float) -> tuple[float, ...]:
    """Coefficients of x^2, x^3, ..."""
    return tuple(fsum(b**j for j in range(n - 1)) / factorial(n) for n in range(2, _LAST_POWER + 1))


def alpha_series(x: Float[Tensor, "*shape"], b: float) -> Float[Tensor, "*shape"]:
    """Return f(x) of the alpha family for |x| <= ``SERIES_RADIUS``; meaningless beyond."""
    *lower, last = _coefficients(b)
    total = x * 0.0 + last
    for coefficient in reversed(lower):
        total = total * x + coefficient
    return x * x * total


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
