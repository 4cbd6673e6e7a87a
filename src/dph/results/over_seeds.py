"""Means over seeds, their intervals, and paired differences.

An interval over problems (evaluation.json) says how a model would do on other problems, and nothing
about training it again. Here the unit is a seed: mean +- t * s / sqrt(n), s the standard deviation
of the n seeds and t the 97.5% quantile of Student's t with n - 1 degrees of freedom (Student 1908,
Biometrika 6). With 3 seeds t is 4.3: such intervals are wide because little is known. Intervals of
fractions are cut at 0 and 1, those of effective styles at 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import copysign, inf, sqrt
from statistics import fmean, stdev
from typing import Any, Literal

from dph.errors import DataError, SettingsError


def t_quantile(probability: float, degrees: int) -> float:
    """The t below which ``probability`` of the distribution lies.

    Computed as: SciPy's ``stdtrit``, imported with the first quantile: it takes 0.4 s to load.
    Accuracy: 1e-9 relative for 0.5 <= probability <= 0.9995 and degrees <= 1000.

    >>> round(t_quantile(0.975, 2), 4)
    4.3027
    """
    if not 0.5 <= probability < 1:
        raise SettingsError(f"probability must lie in [0.5, 1), got {probability}")
    if degrees < 1:
        raise SettingsError(f"degrees of freedom must be at least 1, got {degrees}")
    from scipy.special import stdtrit  # noqa: PLC0415 - loaded with the first quantile

    return float(stdtrit(degrees, probability))


@dataclass(frozen=True, slots=True)
class SeedMean:
    """The mean over seeds, and half of its 95% t-interval; None with fewer than two seeds."""

    mean: float
    half: float | None
    seeds: int

    def __str__(self) -> str:
        """The mean and half of its interval, as tables have it.

        >>> str(SeedMean(54.23, 5.1, 10)), str(SeedMean(54.23, None, 1))
        ('54.2 ± 5.1', '54.2')
        """
        return f"{self.mean:.1f}" if self.half is None else f"{self.mean:.1f} ± {self.half:.1f}"

    def signed(self) -> str:
        """The same of a difference: always with its sign.

        >>> SeedMean(2.1, 0.5, 10).signed(), SeedMean(-0.01, None, 1).signed()
        ('+2.1 ± 0.5', '+0.0')
        """
        mean = f"{round(self.mean, 1) + 0.0:+.1f}"
        return mean if self.half is None else f"{mean} ± {self.half:.1f}"

    def times(self, factor: float) -> "SeedMean":
        """The same in another unit; 100 makes per cent of fractions."""
        half = None if self.half is None else factor * self.half
        return SeedMean(factor * self.mean, half, self.seeds)

    def interval(self, bounds: tuple[float, float] = (-inf, inf)) -> tuple[float, float] | None:
        """The interval, cut to the bounds; None with fewer than two seeds."""
        if self.half is None:
            return None
        return max(bounds[0], self.mean - self.half), min(bounds[1], self.mean + self.half)


def mean_over_seeds(values: Sequence[float]) -> SeedMean:
    """Mean +- t s / sqrt(n), not cut to any bounds.

    >>> mean_over_seeds([0.5])
    SeedMean(mean=0.5, half=None, seeds=1)
    """
    count = len(values)
    if count < 2:
        return SeedMean(fmean(values), None, count)
    half = t_quantile(0.975, count - 1) * stdev(values) / sqrt(count)
    return SeedMean(fmean(values), half, count)


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
    from scipy.special import stdtr  # noqa: PLC0415 - loaded with the first test

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


Summary = Mapping[str, Any]
STYLES = "effective_styles"
_COLUMNS = ("greedy", "mean", "keep", "explore", "keep_null", "explore_null", STYLES)


def aggregate_sets(sets: Sequence[Summary]) -> dict[str, Any]:
    """The ``sets`` objects of one model trained with several seeds as one.

    The result has the same form, so every table and picture takes it: means over the seeds, and
    ``ci95`` t-intervals over the seeds (of retention and effective styles as well).

    Raises:
        DataError: sets or k differ between seeds.
    """
    names = _same("sets", [list(of_seed) for of_seed in sets])
    return {name: _aggregate_set([of_seed[name] for of_seed in sets]) for name in names}


def _aggregate_set(seeds: Sequence[Summary]) -> dict[str, Any]:
    ks = _same("k", [list(seed["pass_at_k"]) for seed in seeds])
    columns = {name: [seed[name] for seed in seeds] for name in _COLUMNS}
    columns |= {f"pass_at_{k}": [seed["pass_at_k"][k] for seed in seeds] for k in ks}
    cut_off = {"cut_off": [seed["cut_off"] for seed in seeds]} if "cut_off" in seeds[0] else {}
    found = {name: _known_mean(values) for name, values in (columns | cut_off).items()}
    means = {name: mean and mean.mean for name, mean in found.items()}
    styles = sorted(set().union(*(seed["styles"] for seed in seeds)))
    return {
        "problems": round(fmean(seed["problems"] for seed in seeds)),
        **{name: means[name] for name in (*_COLUMNS, *cut_off)},
        "pass_at_k": {k: means[f"pass_at_{k}"] for k in ks},
        "ci95": {name: _interval(name, found[name]) for name in columns},
        "styles": {one: fmean(seed["styles"].get(one, 0.0) for seed in seeds) for one in styles},
    }


def _known_mean(values: Sequence[float | None]) -> SeedMean | None:
    """None if the value of any seed is unknown."""
    known = [value for value in values if value is not None]
    return mean_over_seeds(known) if len(known) == len(values) else None


def _interval(metric: str, found: SeedMean | None) -> list[float] | None:
    """Cut to the values that the metric can have."""
    bounds = (1.0, inf) if metric == STYLES else (0.0, 1.0)
    interval = None if found is None else found.interval(bounds)
    return None if interval is None else list(interval)


def _same(what: str, lists: Sequence[list[str]]) -> list[str]:
    for other in lists[1:]:
        if set(other) != set(lists[0]):
            raise DataError(f"seeds differ in their {what}: {lists[0]} and {other}")
    return lists[0]
