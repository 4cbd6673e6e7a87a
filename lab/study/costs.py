"""Seconds of the stages of runs, and what the others will take by them."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from dph._base.files import held, read_json, write_json, write_json_lines
from dph._base.files.rows import json_rows
from lab.study.plan import Plan, Run
from lab.study.rows import Places, RunRow
from lab.study.settings import BASE

_PREPARING, _EVALUATING, _STEP = 120.0, 15.0, 0.75
"""Seconds of two slow cores, assumed until the first run is finished."""


class StageClock:
    """Seconds of each stage of a run in a file, added up over the times that it was started."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to the stage ``name``."""
        started = time.perf_counter()
        try:
            yield
        finally:
            passed = time.perf_counter() - started
            with held(self._path.with_name(f".{self._path.name}.lock")):
                spent = dict(read_json(self._path)) if self._path.exists() else {}
                seconds = round(spent.get(name, 0.0) + passed, 2)
                write_json(self._path, {**spent, name: seconds})


@dataclass(frozen=True, slots=True)
class RunSeconds:
    """Seconds by run."""

    seconds: Mapping[str, float]
    _by_kind: dict[tuple[str, str, int], float] = field(default_factory=dict)
    _by_world: dict[str, float] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Whether an estimate rests on a finished run."""
        return bool(self._by_kind)

    def expected(self, run: Run) -> float:
        """Seconds that a run will take: as others of its kind, or of its world, or a guess."""
        variant = run.variant
        kind = (variant.site.name, variant.method, variant.steps)
        if kind in self._by_kind:
            return self._by_kind[kind]
        if variant.method == BASE:
            return _PREPARING
        a_step = self._by_world.get(variant.site.name)
        if a_step is not None:
            return a_step * variant.steps
        return _EVALUATING + _STEP * variant.steps

    def left(self, runs: Iterable[Run], jobs: int) -> float:
        """Seconds until these are finished, ``jobs`` at a time."""
        return sum(self.expected(run) for run in runs) / max(1, jobs)


def read_costs(places: Places, rows: Mapping[str, RunRow]) -> RunSeconds:
    """The costs of finished runs; those of a clone may have been measured on another machine."""
    stages = _stages(places, rows)
    seconds = {run: float(sum(took.values())) for run, took in stages.items()}
    kinds: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    worlds: dict[str, list[float]] = defaultdict(list)
    for run, took in seconds.items():
        row = rows[run]
        kinds[row.world, row.method, row.steps].append(took)
        if row.method != BASE:
            worlds[row.world].append(took / max(1, row.steps))
    return RunSeconds(
        seconds,
        {kind: fmean(values) for kind, values in kinds.items()},
        {world: fmean(values) for world, values in worlds.items()},
    )


def write_costs(places: Places, rows: Mapping[str, RunRow]) -> None:
    """``costs.jsonl``: seconds of each stage, a run a line. Not the same in every clone.

    What the file says of runs that were computed elsewhere stays.
    """
    lines = [{"run": run, "seconds": took} for run, took in _stages(places, rows).items()]
    write_json_lines(places.all_costs, lines)


def _stages(places: Places, rows: Mapping[str, RunRow]) -> dict[str, dict[str, float]]:
    """Seconds of each stage by run, sorted: those of this directory's runs, else of the file."""
    lines = json_rows(places.all_costs) if places.all_costs.exists() else ()
    found = {line["run"]: line["seconds"] for _, line in lines}
    for run in rows:
        if (cost := places.costs / f"{run}.json").exists():
            found[run] = read_json(cost)
    return {run: found[run] for run in sorted(found.keys() & rows.keys())}


# How many runs there are, how many are finished, and how long the others will take.


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """``minutes`` are estimated for ``jobs`` runs at a time; ``guessed`` without any measurement.

    ``undecided`` runs wait for choices: they are in ``total`` and, as the mean of the others, in
    the minutes.
    """

    total: int
    finished: int
    undecided: int
    minutes: float
    jobs: int
    guessed: bool

    def __str__(self) -> str:
        if self.finished == self.total:
            return f"{self.finished} of {self.total} runs"
        minutes = f"about {self.minutes:.0f}" if self.minutes >= 1 else "less than 1"
        guess = " by a guess" if self.guessed else ""
        done = f"{self.finished} of {self.total} runs"
        return f"{done}, {minutes} min left{guess}, {self.jobs} at a time"


def outlook(plan: Plan, places: Places, rows: Mapping[str, RunRow], jobs: int) -> Outlook:
    """The outlook of a plan when these runs are finished."""
    costs = read_costs(places, rows)
    missing = plan.missing(rows)
    finished = len({run.id for run in plan.runs} & set(rows))
    undecided = plan.total - finished - len(missing)
    known = [costs.expected(run) for run in plan.runs]
    each = sum(known) / len(known) if known else 0.0
    return Outlook(
        total=plan.total,
        finished=finished,
        undecided=undecided,
        minutes=costs.left(missing, jobs) / 60 + undecided * each / jobs / 60,
        jobs=jobs,
        guessed=not costs.measured,
    )
