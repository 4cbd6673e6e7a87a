"""A study's finished runs: means with intervals, differences, and the rule's comparisons."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from dph.results.over_seeds import SeedMean, mean_over_seeds
from lab.study.paired_tests import Alternative, PairedDifference, holm, paired_t
from lab.study.plan import (
    DEVELOPMENT,
    REPORT,
    Plan,
    front_points,
    known_value,
    matched_gap,
    set_names,
)
from lab.study.rows import RunRow, require_one_base
from lab.study.settings import BASE, ComparisonSettings, RuleSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleComparison:
    """One of the rule's comparisons on one world; ``adjusted`` is None where nothing is known."""

    world: str
    comparison: ComparisonSettings
    difference: PairedDifference
    adjusted: float | None = None


class GridPlace(NamedTuple):
    """A candidate's place on the axes of its grid; what has no grid is 0."""

    strength: float
    weight: float
    learning_rate: float


class LabelledRow(NamedTuple):
    """A finished run under one of the labels that asked for it."""

    split: str
    label: str
    row: RunRow


def planned_rows(plan: Plan, rows: Mapping[str, RunRow]) -> Iterator[LabelledRow]:
    """The finished runs of a plan, in its order."""
    for run in plan.runs:
        if run.id in rows:
            yield LabelledRow(run.split, run.label, rows[run.id])


class Results:
    """Finished runs by world, label and seed; all but ``tried`` is of the report seeds."""

    def __init__(
        self, found: Iterable[LabelledRow], fronts: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        found, self._fronts = list(found), fronts or {}
        require_one_base(row for _, _, row in found)
        self._rows: dict[tuple[str, str], dict[int, RunRow]] = {}
        self._tried: dict[tuple[str, str], list[RunRow]] = {}
        for split, label, row in found:
            if split == REPORT:
                self._rows.setdefault((row.world, label), {})[row.seed] = row
            if split == DEVELOPMENT:
                self._tried.setdefault((row.world, label), []).append(row)

    @property
    def worlds(self) -> tuple[str, ...]:
        """In the study's order."""
        return tuple(dict.fromkeys(world for world, _ in self._rows))

    def labels(self, world: str) -> tuple[str, ...]:
        """The methods with a finished run, the base model first."""
        found = [label for where, label in self._rows if where == world]
        return tuple(sorted(found, key=lambda label: label != BASE))

    def sets(self, world: str) -> tuple[str, ...]:
        """The evaluation sets of a world."""
        first = next(iter(self._rows[world, self.labels(world)[0]].values()))
        return set_names(first)

    def ks(self, world: str, metric: str = "pass_at_k") -> tuple[int, ...]:
        """The k of a metric that are known."""
        first = next(iter(self._rows[world, self.labels(world)[0]].values()))
        found = {score.k for score in first.scores if score.metric == metric}
        return tuple(sorted(k for k in found if k is not None))

    def rows(self, world: str, label: str) -> dict[int, RunRow]:
        """The finished runs of a method, by seed."""
        return self._rows.get((world, label), {})

    def seeds(self, world: str, label: str) -> int:
        """Number of seeds."""
        return len(self.rows(world, label))

    def tried(self, world: str, label: str) -> dict[GridPlace, list[RunRow]]:
        """The runs of each candidate on the development seeds, the weakest first."""
        found: dict[GridPlace, list[RunRow]] = {}
        for row in self._tried.get((world, label), []):
            found.setdefault(grid_place(row), []).append(row)
        return dict(sorted(found.items()))

    def values(self, world: str, label: str, metric: str, sets: Sequence[str]) -> dict[int, float]:
        """By seed; seeds of which nothing is known, or only a part of a front, are left out."""
        found: dict[int, float] = {}
        for seed, row in self.rows(world, label).items():
            front = self._front(world, label, seed) if "front@" in metric else []
            value = None if front is None else known_value(row, metric, sets, front)
            if value is not None:
                found[seed] = value
        return found

    def _front(self, world: str, label: str, seed: int) -> list[RunRow] | None:
        """The runs of a front, the base model's first; None while one is missing."""
        names = (BASE, label, *self._fronts.get(label, ()))
        found = [self.rows(world, name).get(seed) for name in names]
        runs = [row for row in found if row is not None]
        return runs if len(runs) == len(names) else None

    def _gaps(
        self, world: str, labels: tuple[str, str], k: int, sets: Sequence[str]
    ) -> dict[int, float]:
        """By seed, how far the first label's front is above the second's at equal mean@1."""
        found: dict[int, float] = {}
        for seed in self.rows(world, BASE):
            fronts = [self._front(world, label, seed) for label in labels]
            if None not in fronts:
                points = [[front_points(runs or (), k, of) for runs in fronts] for of in sets]
                if all(map(all, points)):  # this world has the sets and this k
                    found[seed] = fmean(matched_gap(*both) for both in points)
        return found

    def estimate(self, world: str, label: str, metric: str, sets: Sequence[str]) -> SeedMean | None:
        """The mean over seeds; None where nothing is known."""
        values = list(self.values(world, label, metric, sets).values())
        return mean_over_seeds(values) if values else None

    def difference(
        self,
        world: str,
        labels: tuple[str, str],
        metric: str,
        sets: Sequence[str],
        alternative: Alternative = "two-sided",
    ) -> PairedDifference | None:
        """The first label minus the second on the seeds that both have; None without any."""
        if metric.startswith("matched@"):
            gaps = self._gaps(world, labels, int(metric.partition("@")[2]), sets)
            return paired_by_seed(gaps, dict.fromkeys(gaps, 0.0), alternative)
        a, b = (self.values(world, label, metric, sets) for label in labels)
        return paired_by_seed(a, b, alternative)


def grid_place(row: RunRow) -> GridPlace:
    """The place of a run's candidate."""
    return GridPlace(row.strength or 0.0, row.interpolate or 0.0, row.learning_rate or 0.0)


def paired_by_seed(
    a: Mapping[int, float], b: Mapping[int, float], alternative: Alternative = "two-sided"
) -> PairedDifference | None:
    """The first minus the second on the seeds that both have; None without any."""
    seeds = sorted(a.keys() & b.keys())
    if not seeds:
        return None
    return paired_t([a[s] for s in seeds], [b[s] for s in seeds], alternative)


def mean_of(rows: Sequence[RunRow], metric: str, sets: Sequence[str]) -> float | None:
    """The mean of a metric over runs of which it is known; None where it is of none."""
    known = [value for row in rows if (value := known_value(row, metric, sets)) is not None]
    return fmean(known) if known else None


def compared(results: Results, rule: RuleSettings) -> list[RuleComparison]:
    """Every comparison of the rule on every world it is about, p-values corrected together."""
    found = list(_comparisons(results, rule))
    tested = [c for c in found if c.difference.p_value is not None]
    p_values = [c.difference.p_value or 0.0 for c in tested]
    adjusted = holm(p_values) if rule.correction == "holm" else p_values
    by_place = {id(c): p for c, p in zip(tested, adjusted, strict=True)}
    return [replace(c, adjusted=by_place.get(id(c))) for c in found]


def _comparisons(results: Results, rule: RuleSettings) -> Iterator[RuleComparison]:
    for one in rule.compare:
        for world in results.worlds:
            if one.world in (None, world):
                found = results.difference(
                    world, (one.a, one.b), one.metric, one.sets, one.alternative
                )
                if found is not None:
                    yield RuleComparison(world=world, comparison=one, difference=found)
