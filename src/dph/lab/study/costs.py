"""Seconds of finished runs, and what the others will take by them."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from dph._base.files import read_json, write_text
from dph._base.files.text_rows import json_rows
from dph.lab.study.places import Places
from dph.lab.study.plan import Run
from dph.lab.study.row_files import RowFile
from dph.lab.study.settings import BASE

_PREPARING, _EVALUATING, _STEP = 120.0, 15.0, 0.75
"""Seconds that are assumed before anything was measured: of two cores that a quickstart takes
minutes on. They are replaced by the first run that is finished."""


@dataclass(frozen=True, slots=True)
class Costs:
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


def read_costs(places: Places, rows: Mapping[str, RowFile]) -> Costs:
    """The costs of finished runs; a clone that has only their scores knows nothing of them."""
    seconds = {}
    for path in sorted(places.costs.glob("[!.]*.json")):
        if path.stem in rows:
            seconds[path.stem] = float(sum(read_json(path).values()))
    kinds: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    worlds: dict[str, list[float]] = defaultdict(list)
    for run, took in seconds.items():
        row = rows[run]
        kinds[row.world, row.method, row.steps].append(took)
        if row.method != BASE:
            worlds[row.world].append(took / max(1, row.steps))
    return Costs(
        seconds,
        {kind: fmean(values) for kind, values in kinds.items()},
        {world: fmean(values) for world, values in worlds.items()},
    )


def write_costs(path: Path, places: Places, rows: Mapping[str, RowFile]) -> None:
    """``costs.jsonl``: seconds of each stage, a run a line. Not the same in every clone.

    What the file says of runs that were computed elsewhere stays.
    """
    seconds = {}
    if path.exists():
        seconds = {line["run"]: line["seconds"] for _, line in json_rows(path)}
    for run in rows:
        if (cost := places.costs / f"{run}.json").exists():
            seconds[run] = read_json(cost)
    lines = [
        json.dumps({"run": run, "seconds": seconds[run]}) + "\n"
        for run in sorted(seconds.keys() & rows.keys())
    ]
    write_text(path, "".join(lines))
