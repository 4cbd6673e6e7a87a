"""The runs of a study, in order, and what was chosen so far."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from dph.errors import DataError, SettingsError
from lab.study.candidates import Candidate, Variant
from lab.study.rows import RunRow
from lab.study.settings import BASE, ChoiceSettings, MethodSettings, StudyFile
from lab.study.sites import Site

# The choice of a candidate by the rule, from runs on the development seeds.

# Numbers out of finished runs: a metric, or a sum of them, on a set or over several.


def set_names(row: RunRow) -> tuple[str, ...]:
    """The evaluation sets of a run, in their order; what older rows say of a store is none."""
    sets = dict.fromkeys(score.set for score in row.scores)
    return tuple(name for name in sets if not name.startswith("stores."))


def value_of(row: RunRow, metric: str, sets: Sequence[str], front: Sequence[RunRow] = ()) -> float:
    """The mean over ``sets`` of a metric, or of the sum of several (``greedy + pass@16``).

    ``front`` are the other runs of the seed whose points belong to the front of this one.
    """
    names = [name.strip() for name in metric.split("+")]
    return fmean(sum(_one(row, name, of, front) for name in names) for of in sets)


def known_value(
    row: RunRow, metric: str, sets: Sequence[str], front: Sequence[RunRow] = ()
) -> float | None:
    """``value_of``, or None where the run has no such set or metric."""
    try:
        return value_of(row, metric, sets, front)
    except DataError:
        return None


def undominated(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The front of points: those that no other is above and right of, from the left."""
    kept: list[tuple[float, float]] = []
    for point in sorted(points, reverse=True):
        if not kept or point[1] > kept[-1][1]:
            kept.append(point)
    return kept[::-1]


def area_under_front(points: Iterable[tuple[float, float]]) -> float:
    """The area under the front of points: over each x, the largest y of a point at x or beyond.

    **Source**: the hypervolume of Zitzler and Thiele (1999, IEEE Trans. Evol. Comput. 3:257), from
    the origin.

    >>> area_under_front([(0.5, 0.5), (0.25, 0.75), (0.25, 0.5)])
    0.3125
    """
    front = undominated(points)
    starts = (0.0, *(x for x, _ in front))
    return sum(y * (x - start) for start, (x, y) in zip(starts, front, strict=False))


def matched_gap(a: Sequence[tuple[float, float]], b: Sequence[tuple[float, float]]) -> float:
    """The mean distance from the front ``b`` up to the front ``a``, over every x that both reach.

    A front is linear between its points.

    >>> matched_gap([(0.25, 1.0), (0.75, 0.5), (0.5, 0.25)], [(0.25, 1.0), (0.5, 0.25)])
    0.25
    """
    low = max(min(x for x, _ in points) for points in (a, b))
    high = min(max(x for x, _ in points) for points in (a, b))
    at = np.unique([low, high, *(x for x, _ in (*a, *b) if low < x < high)])
    above, below = (np.interp(at, *np.transpose(undominated(points))) for points in (a, b))
    gaps = above - below
    if high <= low:
        return float(gaps[0])
    return float(np.diff(at) @ (gaps[:-1] + gaps[1:]) / 2 / (high - low))


def front_points(rows: Iterable[RunRow], k: int, of: str) -> list[tuple[float, float]]:
    """(mean@1, Pass@k) on a set, of every scored checkpoint and of the results of runs."""
    found: dict[object, dict[str, float]] = {}
    for row in rows:
        for score in row.scores:
            if score.set == of and score.k in (None, k) and score.value is not None:
                found.setdefault((row.run, score.step), {})[score.metric] = score.value
    return [(at["mean"], at["pass_at_k"]) for at in found.values() if "pass_at_k" in at]


def _one(row: RunRow, metric: str, of: str, front: Sequence[RunRow]) -> float:
    name, _, k = metric.partition("@")
    if name == "front" and (points := front_points([row, *front], int(k), of)):
        return area_under_front(points)
    wanted = (f"{name}_at_k", int(k)) if k else (name, None)
    for score in (score for score in row.scores if score.step is None):
        if score.set == of and (score.metric, score.k) == wanted and score.value is not None:
            return score.value
    raise DataError(
        f"the run {row.run} has no {metric} on the set {of!r}; its sets are "
        f"{', '.join(map(repr, set_names(row)))}; if [budget] was changed after that run, "
        "remove the run's rows to repeat it"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Candidates of a method on a world, and the one that is reported.

    ``scores`` belong to ``tried`` one by one; None where there were no development runs (there was
    nothing to choose) or they are not finished.
    """

    tried: tuple[Candidate, ...]
    scores: tuple[float | None, ...]
    chosen: Candidate

    @property
    def score(self) -> float | None:
        """Of the chosen one."""
        return self.scores[self.tried.index(self.chosen)]

    def tied(self, tie: float) -> tuple[Candidate, ...]:
        """All that the tie-break chose between; empty where the best score decided alone."""
        known = [score for score in self.scores if score is not None]
        if len(known) < len(self.tried):
            return ()
        found = _within(known, tie)
        return tuple(self.tried[i] for i in found) if len(found) > 1 else ()


def development_score(rows: Sequence[RunRow], rule: ChoiceSettings) -> float:
    """The mean over runs, and over the rule's sets, of the rule's metric."""
    try:
        return fmean(value_of(row, rule.metric, rule.sets or set_names(row)) for row in rows)
    except DataError as error:
        raise SettingsError(f"the rule's [choose] does not fit: {error}") from error


def best_candidate(
    tried: Sequence[Candidate], scores: Sequence[float], rule: ChoiceSettings
) -> int:
    """The place of the chosen one: of those less than ``tie`` below the best, the firmest.

    ``tie_goes_to = "weaker"`` takes the least firm of them. With ``tie = 0`` only exactly equal
    scores are a tie.

    >>> tried = [Candidate(strength=s) for s in (0.1, 1.0, 10.0)]
    >>> best_candidate(tried, [1.600, 1.598, 1.5], ChoiceSettings(tie=0.005))
    1
    """
    tied = _within(scores, rule.tie)
    strongest = rule.tie_goes_to == "stronger"
    return (max if strongest else min)(tied, key=lambda i: tried[i].firmness)


def _within(scores: Sequence[float], tie: float) -> list[int]:
    """The places of the best score and of those less than ``tie`` below it."""
    best = max(scores)
    return [i for i, score in enumerate(scores) if score == best or best - score < tie]


DEVELOPMENT, REPORT = "development", "report"
Rows = Mapping[str, RunRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the study, under one label. Several labels may ask for the same run."""

    variant: Variant
    label: str
    seed: int
    split: str

    @property
    def id(self) -> str:
        """The name of its results."""
        return self.variant.run_id(self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """Runs of a method in a world that wait for choices: an upper bound for each seed."""

    site: Site
    method: MethodSettings
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All runs that are decided, in the order in which they are best made, and what is undecided.

    ``choices`` are by world and label.
    """

    runs: tuple[Run, ...]
    undecided: tuple[Undecided, ...]
    choices: Mapping[tuple[str, str], Choice]

    @property
    def total(self) -> int:
        """Number of different runs, including those that are not decided yet."""
        return len({run.id for run in self.runs}) + sum(len(left.seeds) for left in self.undecided)

    def missing(self, rows: Rows) -> list[Run]:
        """The runs that are not finished, each once, in order."""
        wanted = {run.id: run for run in reversed(self.runs) if run.id not in rows}
        return [run for run in self.runs if wanted.get(run.id) is run]


# Which runs of a study were asked for.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSelection:
    """Those of the named worlds, methods and seeds; nothing named of a kind stands for all."""

    worlds: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    seeds: frozenset[int] = frozenset()

    def __call__(self, run: Run) -> bool:
        """Whether a run was asked for."""
        return self._has(run.variant.site, {run.label, run.variant.method}) and (
            not self.seeds or run.seed in self.seeds
        )

    def of(self, plan: Plan) -> Plan:
        """Part of a plan that was asked for."""
        return Plan(
            runs=tuple(run for run in plan.runs if self(run)),
            undecided=tuple(left for each in plan.undecided if (left := self._part(each)).seeds),
            choices=plan.choices,
        )

    def _part(self, left: Undecided) -> Undecided:
        here = self._has(left.site, {left.method.label, left.method.name})
        seeds = [s for s in left.seeds if here and (not self.seeds or s in self.seeds)]
        return Undecided(site=left.site, method=left.method, seeds=tuple(seeds))

    def _has(self, site: Site, names: Iterable[str | None]) -> bool:
        return (not self.worlds or bool(self.worlds & {site.name, site.task})) and (
            not self.methods or bool(self.methods & set(names))
        )


def wanted_runs(only: Sequence[str], file: StudyFile, sites: Sequence[Site]) -> RunSelection:
    """Selection of ``--only``: several of a kind add up, the kinds narrow each other.

    A method is named by its label or by its name, a world by its name or by its task, a seed by
    its number.
    """
    worlds = {name for site in sites for name in (site.name, site.task) if name is not None}
    methods = {name for m in file.methods for name in (m.label, m.name)} | {BASE}
    seeds = {str(seed) for seed in (*file.study.seeds_development, *file.study.seeds_report)}
    for name in only:
        if name not in worlds | methods | seeds:
            raise SettingsError(
                f"--only {name}: there is no such world, method or seed; there are "
                f"{', '.join(sorted(worlds))}; {', '.join(sorted(methods))}; "
                f"{', '.join(sorted(seeds))}"
            )
    return RunSelection(
        worlds=frozenset(only) & worlds,
        methods=frozenset(only) & methods,
        seeds=frozenset(int(name) for name in set(only) & seeds),
    )
