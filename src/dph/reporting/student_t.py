"""Quantiles of Student's t distribution, for intervals over a few seeds."""

from math import atan, cos, pi, sin, sqrt

from dph.errors import SettingsError

_STEPS = 200
"""Bisection steps: more than a float has bits, so the last ones change nothing."""


def t_quantile(probability: float, degrees: int) -> float:
    """The t below which ``probability`` of the distribution lies.

    Computed as: bisection on the distribution function, which for whole degrees of freedom is a
    finite trigonometric sum (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).
    Accuracy: 1e-9 relative for 0.5 <= probability <= 0.9995 and degrees <= 1000.

    Raises:
        SettingsError: probability is not in [0.5, 1), or degrees is below 1.

    >>> round(t_quantile(0.975, 2), 4)
    4.3027
    """
    if not 0.5 <= probability < 1:
        raise SettingsError(f"probability must lie in [0.5, 1), got {probability}")
    if degrees < 1:
        raise SettingsError(f"degrees of freedom must be at least 1, got {degrees}")
    lo, hi = 0.0, 1.0
    while _inside(hi, degrees) < 2 * probability - 1:
        hi *= 2
    for _ in range(_STEPS):
        middle = (lo + hi) / 2
        if _inside(middle, degrees) < 2 * probability - 1:
            lo = middle
        else:
            hi = middle
    return (lo + hi) / 2


def _inside(t: float, degrees: int) -> float:
    """The probability of [-t, t]."""
    angle = atan(t / sqrt(degrees))
    square, odd = cos(angle) ** 2, degrees % 2
    term = cos(angle) if odd else 1.0
    total = term if degrees > 1 else 0.0
    for i in range(2 + odd, degrees - 1, 2):
        term *= square * (i - 1) / i
        total += term
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
