"""``study.parquet``: every score of every finished run, the same bytes however it was killed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph.files import atomic_file
from dph.study.plan import Plan
from dph.study.row_files import RowFile
from dph.study.rule_lock import RuleLock

SCHEMA = 1
COLUMNS = pa.schema(
    [
        ("world", pa.string()),
        ("edition", pa.int64()),
        ("split", pa.string()),
        ("seed", pa.int64()),
        ("label", pa.string()),
        ("method", pa.string()),
        ("strength", pa.float64()),
        ("learning_rate", pa.float64()),
        ("interpolate", pa.float64()),
        ("steps", pa.int64()),
        ("set", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int64()),
        ("value", pa.float64()),
        ("problems", pa.int64()),
        ("samples", pa.int64()),
        ("rollouts", pa.int64()),
        ("stored", pa.int64()),
        ("run", pa.string()),
        ("base_sha256", pa.string()),
    ]
)


def write_study(path: Path, plan: Plan, rows: Mapping[str, RowFile], lock: RuleLock) -> None:
    """Write the scores of the plan's finished runs, sorted, with the rule's hash as metadata.

    No time, no duration and no path is in it.
    """
    metadata = {
        "dph.schema": str(SCHEMA),
        "dph.rule_sha256": lock.sha256,
        "dph.rule_replaces": ",".join(lock.replaces),
    }
    ordered = sorted(study_rows(plan, rows), key=_order)
    table = pa.Table.from_pylist(ordered, schema=COLUMNS.with_metadata(metadata))
    with atomic_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def study_rows(plan: Plan, rows: Mapping[str, RowFile]) -> Iterator[dict[str, Any]]:
    """A row for each score of each run and label."""
    for run in plan.runs:
        row = rows.get(run.id)
        if row is None:
            continue
        for score in row.scores:
            yield {
                "world": row.world,
                "edition": row.edition,
                "split": run.split,
                "seed": row.seed,
                "label": run.label,
                "method": row.method,
                "strength": row.strength,
                "learning_rate": row.learning_rate,
                "interpolate": row.interpolate,
                "steps": row.steps,
                "set": score.set,
                "metric": score.metric,
                "k": score.k,
                "value": score.value,
                "problems": score.problems,
                "samples": row.samples,
                "rollouts": row.rollouts,
                "stored": row.stored,
                "run": row.run,
                "base_sha256": row.base_sha256,
            }


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    k = 0 if row["k"] is None else row["k"]
    return (
        *(row["world"], row["split"], row["seed"], row["label"], row["run"]),
        *(row["set"], row["metric"], k),
    )
