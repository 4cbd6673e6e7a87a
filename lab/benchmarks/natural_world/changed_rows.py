"""A database with other rows, so that two queries do not return the same by luck.

Columns keep their values: each is shuffled over the rows by itself (keys and the columns that refer
to them stay in their rows, so that joins find something). A part of the rows is left out, and with
it those that would break a constraint of the database. What a column never holds, NULL among
others, no changed database holds either.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from dph.tasks.sql.schema import Schema, SchemaTable
from dph.tasks.verifiers.sql.executor import database_uri

KEPT = (1.0, 0.7, 0.7)
"""The share of the rows that each changed database keeps."""


def changed_databases(database: Path, schema: Schema, directory: Path, *, seed: int) -> list[Path]:
    """Write a database for each share of ``KEPT`` into ``directory``; one that is there is kept."""
    written = []
    for number, kept in enumerate(KEPT):
        path = directory / f"{database.stem}-{seed}-{number}.sqlite"
        if not path.exists():
            rng = Random(f"changed rows {seed}: {database.stem} {number}")
            temporary = path.with_suffix(".part")
            temporary.unlink(missing_ok=True)
            _write_changed(database, schema, temporary, kept, rng)
            temporary.replace(path)
        written.append(path)
    return written


def _write_changed(database: Path, schema: Schema, path: Path, kept: float, rng: Random) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        closing(sqlite3.connect(database_uri(database), uri=True)) as source,
        closing(sqlite3.connect(path)) as target,
    ):
        source.text_factory = bytes
        target.execute("PRAGMA synchronous=OFF")
        for (statement,) in source.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%'"
            " ESCAPE '\\' ORDER BY rowid"
        ).fetchall():
            target.execute(statement.decode())
        for table in schema.tables:
            rows = source.execute(f'SELECT * FROM "{table.name}"').fetchall()
            changed = changed_rows(rows, _fixed_columns(schema, table), kept, rng)
            if changed:
                blanks = ", ".join("?" * len(changed[0]))
                values = [[_text(value) for value in row] for row in changed]
                target.executemany(
                    f'INSERT OR IGNORE INTO "{table.name}" VALUES ({blanks})', values
                )
        target.commit()


def changed_rows(
    rows: list[tuple[object, ...]], fixed: set[int], kept: float, rng: Random
) -> list[tuple[object, ...]]:
    """Rows with the values of every column that is not ``fixed`` shuffled, some of them left out.

    >>> changed_rows([(1, "a"), (2, "b")], {0}, 0.5, Random(0))
    [(2, 'a')]
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    for index, column in enumerate(columns):
        if index not in fixed:
            rng.shuffle(column)
    shuffled = list(zip(*columns, strict=True))
    return sorted(rng.sample(shuffled, round(kept * len(rows))), key=lambda _: rng.random())


def _fixed_columns(schema: Schema, table: SchemaTable) -> set[int]:
    """Columns of the primary key, and of foreign keys at either end."""
    fixed = {name.lower() for name in table.primary_key}
    fixed |= {key.column.lower() for key in table.foreign_keys}
    for other in schema.tables:
        for key in other.foreign_keys:
            if key.target_table.lower() == table.name.lower():
                fixed.add(key.target_column.lower())
    return {i for i, column in enumerate(table.columns) if column.name.lower() in fixed}


def _text(value: object) -> object:
    """Text as text: bytes would be stored as a blob; what is not UTF-8 stays what it is."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
