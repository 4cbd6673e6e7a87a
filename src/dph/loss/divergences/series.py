"""Power series of the alpha family around x = 0, where the closed forms cancel.

Equation: with b = 1 - alpha,

    f(x) = sum_{n >= 2} (1 + b + ... + b^(n-2)) x^n / n!

b = 0 is forward KL (expm1(x) - x) and b = 1 reverse KL (u x - expm1(x)). Every coefficient
is a sum of positive numbers, so nothing cancels for any b in [0, 1], while the closed form
(expm1(b x) - b expm1(x)) / (b (b - 1)) loses all digits as x -> 0, b -> 0 or b -> 1.
"""

from functools import cache
from math import factorial, fsum
from typing import Final

from jaxtyping import Float
from torch import Tensor

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
