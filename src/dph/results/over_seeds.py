"""Means over seeds and their intervals.

An interval over problems (evaluation.json) says how a model would do on other problems, and nothing
about training it again. Here the unit is a seed: mean +- t * s / sqrt(n), s the standard deviation
of the n seeds and t the 97.5% quantile of Student's t with n - 1 degrees of freedom (Student 1908,
Biometrika 6). With 3 seeds t is 4.3: such intervals are wide because little is known. Intervals of
fractions are cut at 0 and 1, those of effective styles at 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Any

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
    columns = {name: [seed.get(name) for seed in seeds] for name in _COLUMNS}
    columns |= {f"pass_at_{k}": [seed["pass_at_k"][k] for seed in seeds] for k in ks}
    cut_off = {"cut_off": [seed["cut_off"] for seed in seeds]} if "cut_off" in seeds[0] else {}
    means: dict[str, float | None] = dict.fromkeys(columns | cut_off)
    intervals: dict[str, list[float] | None] = dict.fromkeys(columns)
    for name, values in (columns | cut_off).items():
        if None not in values:  # known of every seed
            found = mean_over_seeds(values)
            interval = found.interval((1.0, inf) if name == STYLES else (0.0, 1.0))
            means[name], intervals[name] = found.mean, list(interval) if interval else None
    styles = sorted(set().union(*(seed["styles"] for seed in seeds)))
    return {
        "problems": round(fmean(seed["problems"] for seed in seeds)),
        **{name: means[name] for name in (*_COLUMNS, *cut_off)},
        "pass_at_k": {k: means[f"pass_at_{k}"] for k in ks},
        "ci95": {name: intervals[name] for name in columns},
        "styles": {one: fmean(seed["styles"].get(one, 0.0) for seed in seeds) for one in styles},
    }


def _same(what: str, lists: Sequence[list[str]]) -> list[str]:
    for other in lists[1:]:
        if set(other) != set(lists[0]):
            raise DataError(f"seeds differ in their {what}: {lists[0]} and {other}")
    return lists[0]
