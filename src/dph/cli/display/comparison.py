"""Reading evaluated runs, and how they compare as JSON."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph.errors import DataError
from dph.evaluation.comparison import ComparisonRow
from dph.evaluation.samples_file import comparable_scores, read_samples
from dph.evaluation.scores import SetScores

Scores = Mapping[str, Mapping[str, SetScores]]
USUAL_KS = (8, 16, 32)


def read_runs(runs: Sequence[Path], set_names: Sequence[str]) -> dict[str, dict[str, SetScores]]:
    """Each run's scores by set, from its ``samples.parquet``; the path is the run's name.

    Raises:
        DataError: a run is named twice, was not evaluated, or lacks a set that was asked for.
    """
    tables: dict[str, pa.Table] = {}
    for run in runs:
        if str(run) in tables:
            raise DataError(f"the run {run} is named twice")
        path = run / "samples.parquet"
        if not path.is_file():
            raise DataError(f"{run} was not evaluated: there is no {path}; run `dph evaluate`")
        tables[str(run)] = read_samples(path)
    scores = comparable_scores(tables)
    for label, sets in scores.items():
        for name in set_names:
            if name not in sets:
                raise DataError(f"{label} was evaluated on {', '.join(sets)}, not on {name!r}")
    return {
        label: {name: sets[name] for name in set_names or sets} for label, sets in scores.items()
    }


def default_ks(scores: Scores) -> list[int]:
    """Those of 8, 16, 32 that every set of every run has the samples for; else all samples."""
    samples = min(of_set.samples for sets in scores.values() for of_set in sets.values())
    return [k for k in USUAL_KS if k <= samples] or [samples]


def comparison_json(baseline: str, rows: Sequence[ComparisonRow]) -> dict[str, Any]:
    """For machines: one object a row; fractions in [0, 1]."""
    return {"schema": 1, "baseline": baseline, "rows": [_row_json(row) for row in rows]}


def _row_json(row: ComparisonRow) -> dict[str, Any]:
    d = row.difference
    return {
        "set": row.set_name,
        "metric": row.metric,
        "run": row.run,
        "value": row.value,
        "ci95": [row.lo, row.hi],
        "difference": None if d is None else {"mean": d.mean, "ci95": [d.lo, d.hi]},
    }
