"""Results on the report seeds: means with intervals, differences, and the rule's comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import copysign, inf, sqrt
from statistics import fmean, stdev
from typing import Literal

from dph.errors import DataError
from dph.lab.study.plan import REPORT, Plan, known_value, set_names
from dph.lab.study.rows import RunRow, require_one_base
from dph.lab.study.settings import BASE, ComparisonSettings, RuleSettings
from dph.results.charts.aggregate import t_quantile, t_tail

# Differences between two methods on the same seeds.

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


# Holm's correction of several p-values.


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: reject where one is at most the level.

    Equation: with the p-values in rising order p(1) <= ... <= p(m), the adjusted p(i) is the
    largest of min(1, (m - j + 1) p(j)) over j <= i (Holm 1979, Scandinavian Journal of Statistics
    6, 65-70, the step-down procedure; written as adjusted values by Wright 1992, Biometrics 48).

    Raises:
        DataError: a p-value lies outside [0, 1].

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


POWER_SEEDS = (4, 10)


@dataclass(frozen=True, slots=True)
class SeedMean:
    """The mean over seeds, and half of its 95% t-interval; None with fewer than two seeds."""

    mean: float
    half: float | None
    seeds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleComparison:
    """One of the rule's comparisons on one world; ``adjusted`` is None where nothing is known."""

    world: str
    comparison: ComparisonSettings
    difference: PairedDifference
    adjusted: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Power of a world to tell ``label`` from the base model: standard errors by number of seeds.

    ``deviation`` is that of the paired differences between seeds.
    """

    world: str
    label: str
    set: str
    metric: str
    mean: float
    deviation: float
    seeds: int

    def standard_error(self, seeds: int) -> float:
        """Standard error of the mean difference over this many seeds."""
        return self.deviation / sqrt(seeds)


class Results:
    """Finished runs on the report seeds, by world, label and seed.

    Raises:
        DataError: two runs on one seed of a world began with different base models.
    """

    def __init__(self, plan: Plan, rows: Mapping[str, RunRow]) -> None:
        require_one_base(rows.values())
        self._rows: dict[tuple[str, str], dict[int, RunRow]] = {}
        for run in plan.runs:
            if run.split == REPORT and run.id in rows:
                key = (run.variant.site.name, run.label)
                self._rows.setdefault(key, {})[run.seed] = rows[run.id]

    @property
    def worlds(self) -> tuple[str, ...]:
        """In the study's order."""
        return tuple(dict.fromkeys(world for world, _ in self._rows))

    def labels(self, world: str) -> tuple[str, ...]:
        """The methods with a finished run, the base model first."""
        found = [label for where, label in self._rows if where == world]
        return tuple(sorted(found, key=lambda label: label != BASE))

    def all_labels(self) -> tuple[str, ...]:
        """Those of all worlds, each once."""
        return tuple(dict.fromkeys(label for world in self.worlds for label in self.labels(world)))

    def sets(self, world: str) -> tuple[str, ...]:
        """The evaluation sets of a world."""
        first = next(iter(self._rows[world, self.labels(world)[0]].values()))
        return set_names(first)

    def ks(self, world: str) -> tuple[int, ...]:
        """The k of Pass@k that are known."""
        first = next(iter(self._rows[world, self.labels(world)[0]].values()))
        return tuple(sorted({score.k for score in first.scores if score.k is not None}))

    def rows(self, world: str, label: str) -> dict[int, RunRow]:
        """The finished runs of a method, by seed."""
        return self._rows.get((world, label), {})

    def seeds(self, world: str, label: str) -> int:
        """Number of seeds."""
        return len(self.rows(world, label))

    def values(self, world: str, label: str, metric: str, sets: Sequence[str]) -> dict[int, float]:
        """By seed; seeds of which nothing is known are left out."""
        found = {
            seed: known_value(row, metric, sets) for seed, row in self.rows(world, label).items()
        }
        return {seed: value for seed, value in found.items() if value is not None}

    def estimate(self, world: str, label: str, metric: str, sets: Sequence[str]) -> SeedMean | None:
        """The mean over seeds; None where nothing is known."""
        values = list(self.values(world, label, metric, sets).values())
        return mean_over_seeds(values) if values else None

    def difference(self, world: str, comparison: ComparisonSettings) -> PairedDifference | None:
        """A - b on the seeds that both have; None where there are none."""
        a, b = (
            self.values(world, label, comparison.metric, comparison.sets)
            for label in (comparison.a, comparison.b)
        )
        seeds = sorted(a.keys() & b.keys())
        if not seeds:
            return None
        return paired_t([a[s] for s in seeds], [b[s] for s in seeds], comparison.alternative)


def mean_over_seeds(values: Sequence[float]) -> SeedMean:
    """Mean +- t s / sqrt(n), as ``dph.results.charts.aggregate`` has it, without cutting.

    >>> mean_over_seeds([0.5])
    SeedMean(mean=0.5, half=None, seeds=1)
    """
    count = len(values)
    if count < 2:
        return SeedMean(fmean(values), None, count)
    half = t_quantile(0.975, count - 1) * stdev(values) / sqrt(count)
    return SeedMean(fmean(values), half, count)


def compared(results: Results, rule: RuleSettings) -> list[RuleComparison]:
    """Every comparison of the rule on every world it is about, p-values corrected together."""
    found = list(_comparisons(results, rule))
    tested = [c for c in found if c.difference.p_value is not None]
    p_values = [c.difference.p_value or 0.0 for c in tested]
    adjusted = holm(p_values) if rule.correction == "holm" else p_values
    by_place = {id(c): p for c, p in zip(tested, adjusted, strict=True)}
    return [replace(c, adjusted=by_place.get(id(c))) for c in found]


def power(
    results: Results, world: str, label: str, columns: Sequence[tuple[str, str]]
) -> Iterator[Power]:
    """The spread of ``label`` - base between seeds, of each set and metric of which it is known."""
    for of, metric in columns:
        asked = ComparisonSettings(a=label, b=BASE, metric=metric, set=of)
        found = results.difference(world, asked)
        if found is None or found.standard_error is None:
            continue
        yield Power(
            world=world,
            label=label,
            set=of,
            metric=metric,
            mean=found.mean,
            deviation=found.standard_error * sqrt(found.seeds),
            seeds=found.seeds,
        )


def _comparisons(results: Results, rule: RuleSettings) -> Iterator[RuleComparison]:
    for comparison in rule.compare:
        for world in results.worlds:
            if comparison.world in (None, world):
                difference = results.difference(world, comparison)
                if difference is not None:
                    yield RuleComparison(world=world, comparison=comparison, difference=difference)
