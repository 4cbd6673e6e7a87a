"""Differences between two methods on the same seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, inf, sqrt
from statistics import fmean, stdev
from typing import Literal

from dph.errors import DataError
from dph.results.charts.student_t import t_quantile, t_tail

Alternative = Literal["greater", "less", "two-sided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """a - b over seeds; ``lo`` and ``hi`` are the two-sided 95% interval of its mean.

    They are None with one seed, and so is the p-value.
    """

    mean: float
    standard_error: float | None
    lo: float | None
    hi: float | None
    p_value: float | None
    seeds: int


def paired_t(
    a: Sequence[float], b: Sequence[float], alternative: Alternative = "two-sided"
) -> PairedDifference:
    """The paired t-test of a against b, whose values belong together one by one.

    Equation: t = mean(d) / (s(d) / sqrt(n)) with d = a - b and n - 1 degrees of freedom (Student
    1908, Biometrika 6, 1-25).
    Limits: where all differences are equal, t is infinite with their sign, and 0 where they are 0;
    then the p-value of "greater" is 1/2, because nothing speaks for either side.

    Raises:
        DataError: the lengths differ, or there are no values.

    >>> round(paired_t([3.0, 5.0], [1.0, 1.0]).p_value, 4)
    0.2048
    """
    if len(a) != len(b) or not a:
        raise DataError(f"paired values belong together, got {len(a)} and {len(b)} of them")
    differences = [x - y for x, y in zip(a, b, strict=True)]
    mean, count = fmean(differences), len(differences)
    if count < 2:
        return PairedDifference(
            mean=mean, standard_error=None, lo=None, hi=None, p_value=None, seeds=count
        )
    error = stdev(differences) / sqrt(count)
    half = t_quantile(0.975, count - 1) * error
    return PairedDifference(
        mean=mean,
        standard_error=error,
        lo=mean - half,
        hi=mean + half,
        p_value=_p_value(_t(mean, error), count - 1, alternative),
        seeds=count,
    )


def _t(mean: float, error: float) -> float:
    if error > 0:
        return mean / error
    return copysign(inf, mean) if mean else 0.0


def _p_value(t: float, degrees: int, alternative: Alternative) -> float:
    if alternative == "greater":
        return t_tail(t, degrees)
    if alternative == "less":
        return t_tail(-t, degrees)
    return min(1.0, 2 * t_tail(abs(t), degrees))
