"""``study.parquet``: every score of every finished run. The rows of a study: it goes on from them.

The same rows give the same bytes, however often the study was killed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_file
from dph.lab.study.places import Places
from dph.lab.study.plan import Plan
from dph.lab.study.rows import RowFile, row_path
from dph.lab.study.rows import COLUMNS, OF_RUN, OF_SCORE, SCHEMA
from dph.lab.study.rule_lock import RuleLock


def write_study(places: Places, plan: Plan, rows: Mapping[str, RowFile], lock: RuleLock) -> None:
    """Write the scores of all finished runs, sorted, with the rule's hash as metadata.

    A run has a row for each label that asks for it; one that the plan does not ask for (any more)
    stays, without a label. No time, no duration and no path is in it. Files of runs that the table
    now holds are removed.
    """
    metadata = {
        "dph.schema": str(SCHEMA),
        "dph.rule_sha256": lock.sha256,
        "dph.rule_replaces": ",".join(lock.replaces),
    }
    table = pa.Table.from_pylist(
        list(study_rows(plan, rows)), schema=COLUMNS.with_metadata(metadata)
    )
    with atomic_file(places.parquet) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    for run in rows:
        row_path(places.rows, run).unlink(missing_ok=True)


def study_rows(plan: Plan, rows: Mapping[str, RowFile]) -> Iterator[dict[str, Any]]:
    """A row for each score of each run and label, sorted by world, split, seed, label and run."""
    asked = {(run.id, run.label): run.split for run in plan.runs if run.id in rows}
    there = {run for run, _ in asked}
    named = [(rows[run], split, label) for (run, label), split in asked.items()]
    named += [(row, "", "") for run, row in rows.items() if run not in there]
    named.sort(key=lambda found: (found[0].world, found[1], found[0].seed, found[2], found[0].run))
    for row, split, label in named:
        of_run = {name: getattr(row, name) for name in OF_RUN}
        for score in row.scores:
            of_score = {name: getattr(score, name) for name in OF_SCORE}
            yield {**of_run, **of_score, "split": split or None, "label": label or None}
