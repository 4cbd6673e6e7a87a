"""The rows of a study: those of its ``study.parquet``, and files of runs that ended since."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError
from dph.lab.study.places import Places
from dph.lab.study.row_files import RowFile, Score, read_row_files, require_one_base

SCHEMA = 2
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
        ("rule_sha256", pa.string()),
        ("base_sha256", pa.string()),
        ("commit", pa.string()),
        ("versions", pa.string()),
    ]
)
OF_SCORE = [field.name for field in fields(Score)]
OF_RUN = [field.name for field in fields(RowFile) if field.name != "scores"]


def read_rows(places: Places) -> dict[str, RowFile]:
    """All finished runs of a study, by id: those of its table, and what ran since.

    Raises:
        DataError: the table or a file is damaged or has another schema, or two runs on one seed
            of a world began with different base models.
    """
    rows = {**_read_table(places.parquet), **read_row_files(places.rows)}
    require_one_base(rows.values())
    return dict(sorted(rows.items()))


def _read_table(path: Path) -> dict[str, RowFile]:
    """The runs of a table, each once; their scores in the order in which they were written."""
    if not path.exists():
        return {}
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is damaged: bring it back; {error}") from error
    schema = (table.schema.metadata or {}).get(b"dph.schema", b"none").decode()
    if schema != str(SCHEMA):
        raise DataError(f"{path} has the schema {schema}, not {SCHEMA}: give another directory")
    runs: dict[str, tuple[str | None, dict[str, Any]]] = {}
    scores: dict[str, list[Score]] = {}
    for line in table.to_pylist():
        run = line["run"]
        runs.setdefault(run, (line["label"], {name: line[name] for name in OF_RUN}))
        if line["label"] == runs[run][0]:  # another label repeats them
            score = Score(**{name: line[name] for name in OF_SCORE})
            scores.setdefault(run, []).append(score)
    return {run: RowFile(**of_run, scores=tuple(scores[run])) for run, (_, of_run) in runs.items()}
