"""BIRD (Li et al. 2023, arXiv:2305.03111) from its official files or from parquet.

Official: ``train.json``, ``dev.json`` or ``mini_dev_sqlite.json`` (question, evidence, db_id,
SQL, and where there are any question_id and difficulty), ``train_tables.json`` or
``dev_tables.json``, ``train_databases/`` or ``dev_databases/``.
Parquet: ``dev.parquet``, ``mini_dev.parquet`` (gold_sql for SQL), and ``dev_schema.parquet``, one
row a column, for prompts where the databases are not at hand.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from dph.errors import DataError, SettingsError
from dph.tasks.sql.questions import (
    SQLSplit,
    first_that_exists,
    published_rows,
    require_layout,
    to_questions,
)
from dph.tasks.sql.schema import Column, ForeignKey, Schema, Table

BIRD_SPLITS = ("train", "dev", "mini-dev")

_FILES = {
    "train": ("train.json", "train.parquet"),
    "dev": ("dev.json", "dev.parquet"),
    "mini-dev": ("mini_dev_sqlite.json", "mini_dev.parquet"),
}
_DATABASES = {
    "train": ("train_databases",),
    "dev": ("dev_databases",),
    "mini-dev": ("dev_databases",),
}
_TABLES = {
    "train": ("train_tables.json",),
    "dev": ("dev_tables.json", "dev_schema.parquet"),
    "mini-dev": ("dev_tables.json", "dev_schema.parquet"),
}
_EXAMPLES_SHOWN = 2


def load_bird(directory: Path, split: str) -> SQLSplit:
    """The questions of a split, with ids ``bird-dev-0`` and so on, by BIRD's own numbers.

    Raises:
        SettingsError: there is no such split.
        DataError: the directory holds neither layout, or a row lacks a field.
    """
    if split not in BIRD_SPLITS:
        raise SettingsError(f"BIRD's splits are {', '.join(BIRD_SPLITS)}, got {split!r}")
    file = require_layout(directory, _FILES[split], f"questions of BIRD's {split} set")
    return SQLSplit(
        questions=to_questions(
            file, prefix=f"bird-{split}", gold_field="SQL", number_field="question_id"
        ),
        databases=first_that_exists(directory, _DATABASES[split], test=Path.is_dir),
        tables=first_that_exists(directory, _TABLES[split]),
    )


def read_schema_rows(path: Path) -> dict[str, Schema]:
    """The schemas of a ``dev_schema.parquet``, with example values, by database.

    Raises:
        DataError: the file is missing or has other columns.
    """
    rows = published_rows(path)
    try:
        return {
            db_id: Schema(
                db_id=db_id,
                tables=tuple(
                    _table(name, list(columns))
                    for name, columns in groupby(of_database, key=lambda row: row["table"])
                    if not name.startswith("sqlite_")
                ),
            )
            for db_id, of_database in groupby(rows, key=lambda row: row["db_id"])
        }
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: not a table of columns ({type(error).__name__}: {error})"
        ) from error


def _table(name: str, rows: Iterable[Mapping[str, Any]]) -> Table:
    columns = sorted(rows, key=lambda row: row["position"])
    return Table(
        name=name,
        columns=tuple(
            Column(
                name=row["column"],
                kind=row["type"],
                comment=row["description"] or "",
                values=tuple(json.loads(row["value_samples"] or "[]")[:_EXAMPLES_SHOWN]),
            )
            for row in columns
        ),
        primary_key=tuple(row["column"] for row in columns if row["primary_key"]),
        foreign_keys=tuple(
            ForeignKey(
                column=row["column"],
                target_table=key["target_table"],
                # Left out, it is the key of the other table, by the same name as a rule.
                target_column=key["target_column"] or row["column"],
            )
            for row in columns
            for key in json.loads(row["foreign_keys"] or "[]")
        ),
    )
