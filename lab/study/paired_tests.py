"""Paired differences over seeds, and corrections for several comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, inf, sqrt
from statistics import fmean, stdev
from typing import Literal

from scipy.special import stdtr

from dph.errors import DataError
from dph.results.over_seeds import t_quantile

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

    def error_at(self, seeds: int) -> float | None:
        """The standard error that the mean over so many seeds would have."""
        if self.standard_error is None:
            return None
        return self.standard_error * sqrt(self.seeds) / sqrt(seeds)


def paired_t(
    a: Sequence[float], b: Sequence[float], alternative: Alternative = "two-sided"
) -> PairedDifference:
    """The paired t-test of a against b, whose values belong together one by one.

    Equation: t = mean(d) / (s(d) / sqrt(n)) with d = a - b and n - 1 degrees of freedom (Student
    1908, Biometrika 6, 1-25).
    Limits: where all differences are equal, t is infinite with their sign, and 0 where they are 0;
    then the p-value of "greater" is 1/2, because nothing speaks for either side.

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
    zero = copysign(inf, mean) if mean else 0.0
    t = mean / error if error > 0 else zero
    above, below = (float(stdtr(count - 1, sign * t)) for sign in (-1, 1))
    two_sided = min(1.0, 2 * min(above, below))
    return PairedDifference(
        mean=mean,
        standard_error=error,
        lo=mean - half,
        hi=mean + half,
        p_value={"greater": above, "less": below, "two-sided": two_sided}[alternative],
        seeds=count,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: reject where one is at most the level.

    Equation: with the p-values in rising order p(1) <= ... <= p(m), the adjusted p(i) is the
    largest of min(1, (m - j + 1) p(j)) over j <= i (Holm 1979, Scandinavian Journal of Statistics
    6, 65-70, the step-down procedure; written as adjusted values by Wright 1992, Biometrics 48).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise DataError(f"a p-value lies in [0, 1], got {p}")
    count, largest = len(p_values), 0.0
    adjusted = [0.0] * count
    for rank, place in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (count - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
