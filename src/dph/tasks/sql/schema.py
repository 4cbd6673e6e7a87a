"""What a database looks like: tables, columns, keys, as Spider's and BIRD's tables.json say it."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json
from dph.errors import DataError
from dph.tasks.verifiers.sql.executor import database_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; ``comment`` is its name in words, ``values`` are examples where they are known."""

    name: str
    kind: str
    comment: str = ""
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    """``column`` of this table refers to ``target_column`` of ``target_table``."""

    column: str
    target_table: str
    target_column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table and its keys, in the order of its columns."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A database's tables."""

    db_id: str
    tables: tuple[Table, ...]


def read_tables(path: Path) -> dict[str, Schema]:
    """The schemas in a ``tables.json``, by database.

    Raises:
        DataError: the file is missing or of another form.
    """
    content = read_json(path)
    if not isinstance(content, list):
        raise DataError(f"{path} holds no list of databases, as tables.json does")
    schemas = {}
    for number, entry in enumerate(content):
        try:
            schemas[str(entry["db_id"])] = _schema(entry)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}, entry {number}: not a schema of tables.json "
                f"({type(error).__name__}: {error})"
            ) from error
    return schemas


def read_schema(database: Path) -> Schema:
    """The schema that a SQLite file declares; for a database that no tables.json describes.

    Raises:
        DataError: the file is missing or is not a database.
    """
    if not database.is_file():
        raise DataError(f"there is no database {database}")
    try:
        with closing(sqlite3.connect(database_uri(database), uri=True)) as connection:
            names = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%'"
                " ESCAPE '\\' ORDER BY rowid"
            ).fetchall()
            tables = tuple(_declared(connection, name) for (name,) in names)
    except sqlite3.Error as error:
        raise DataError(f"cannot read the database {database}: {error}") from error
    return Schema(db_id=database.stem, tables=tables)


def _schema(entry: Mapping[str, Any]) -> Schema:
    columns: Sequence[tuple[int, str]] = entry["column_names_original"]
    names: Sequence[str] = entry["table_names_original"]
    primary = [
        index
        for key in entry["primary_keys"]
        for index in (key if isinstance(key, list) else [key])
    ]

    def table(number: int) -> Table:
        own = [index for index, (owner, _) in enumerate(columns) if owner == number]
        return Table(
            name=names[number],
            columns=tuple(
                Column(
                    name=columns[index][1],
                    kind=entry["column_types"][index],
                    comment=entry["column_names"][index][1],
                )
                for index in own
            ),
            primary_key=_once(columns[index][1] for index in own if index in primary),
            foreign_keys=_once(
                ForeignKey(
                    column=columns[source][1],
                    target_table=names[columns[target][0]],
                    target_column=columns[target][1],
                )
                for index in own
                for source, target in entry["foreign_keys"]
                if source == index
            ),
        )

    return Schema(db_id=entry["db_id"], tables=tuple(map(table, range(len(names)))))


def _declared(connection: sqlite3.Connection, name: str) -> Table:
    columns = connection.execute(
        "SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", (name,)
    ).fetchall()
    keys = connection.execute(
        'SELECT "from", "table", coalesce("to", "from") FROM pragma_foreign_key_list(?) '
        "ORDER BY id DESC, seq",
        (name,),
    ).fetchall()
    primary = sorted((place, column) for column, _, place in columns if place)
    return Table(
        name=name,
        columns=tuple(Column(name=column, kind=kind) for column, kind, _ in columns),
        primary_key=tuple(column for _, column in primary),
        foreign_keys=_once(
            ForeignKey(column=source, target_table=table, target_column=target)
            for source, table, target in keys
        ),
    )


def _once(items: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(items))
