"""What runs measured while they trained, step by step, from their ``progress.parquet``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph.errors import DataError
from dph.results.charts.aggregate import aggregate_sets
from dph.results.charts.palette import Look, looks_by_method
from dph.results.figure.run_groups import group_runs
from dph.runs.evaluate.pass_at_k import require_k_fits
from dph.runs.evaluate.progress_file import (
    PROGRESS_FILE,
    measured_steps,
    read_progress_file,
    rows_of_step,
)
from dph.runs.evaluate.progress_file import step_summary
from dph.runs.found_runs import find_runs

USUAL_K = 8
"""The paper's Figure 5 shows Pass@8."""
Steps = Mapping[int, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """By run, and step, the summary of every set; ``notes`` name what measured nothing."""

    runs: Mapping[str, Steps]
    looks: Mapping[str, Look]
    k: int
    notes: tuple[str, ...]
    several: bool
    """Whether a line is the mean of several seeds."""

    def on(self, set_name: str) -> dict[str, dict[int, Mapping[str, Any]]]:
        """The steps at which the runs were measured on a set."""
        found = {
            name: {step: sets[set_name] for step, sets in steps.items() if set_name in sets}
            for name, steps in self.runs.items()
        }
        return {name: steps for name, steps in found.items() if steps}

    @property
    def sets(self) -> list[str]:
        """Every set, in the order they come up."""
        return list(
            dict.fromkeys(
                name for steps in self.runs.values() for sets in steps.values() for name in sets
            )
        )


def read_progress(
    places: Sequence[Path], *, k: int | None = None, seed: int = 0, apart: bool = False
) -> MeasuredRuns:
    """Pass@k of the runs at ``places`` at every step that was measured.

    Seeds of one run are one line, over the steps that all of them have. ``k`` None takes 8, or as
    many samples as there are below that; ``seed`` is that of the bootstrap.

    Raises:
        DataError: no run measured anything, or a file is damaged.
        SettingsError: a run has fewer than k samples, or a recipe is not valid.
    """
    found = find_runs(places)
    tables = {run.path: read_progress_file(run.path / PROGRESS_FILE) for run in found}
    notes = [f"{p}: no {PROGRESS_FILE}" for p, table in tables.items() if not table.num_rows]
    measured = [run for run in found if tables[run.path].num_rows]
    if not measured:
        raise DataError(
            f"no run was measured while it trained (evaluate.every = 0): {'; '.join(notes)}"
        )
    samples = min(min(tables[run.path]["samples"].to_pylist()) for run in measured)
    k = k or min(USUAL_K, samples)
    require_k_fits(k, samples)
    groups = group_runs(measured, apart=apart)
    return MeasuredRuns(
        runs={
            group.name: _over_runs([_steps(tables[run.path], k, seed) for run in group.runs])
            for group in groups
        },
        looks=looks_by_method({group.name: group.method for group in groups}),
        k=k,
        notes=tuple(notes),
        several=any(len(group.runs) > 1 for group in groups),
    )


def _steps(table: pa.Table, k: int, seed: int) -> Steps:
    return {
        step: step_summary(rows_of_step(table, step), ks=[k], seed=seed)
        for step in measured_steps(table)
    }


def _over_runs(runs: Sequence[Steps]) -> Steps:
    if len(runs) == 1:
        return runs[0]
    common = sorted(set.intersection(*(set(steps) for steps in runs)))
    return {step: aggregate_sets([steps[step] for steps in runs]) for step in common}
