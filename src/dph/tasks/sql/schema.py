"""Schema of a database: tables, columns, keys, as Spider's and BIRD's tables.json say it."""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json
from dph.errors import DataError
from dph.tasks.verifiers.sql.executor import database_uri

# Words that must be quoted as names in some SQL dialect. **Source**: the list that the prompts of
# OmniSQL (arXiv:2503.02240) go by, which the paper's are.
_WORDS = """
ACCESS ADD AFTER ALL ALTER ANALYZE AND AS ASC AVG BEFORE BEGIN BETWEEN BIGINT BINARY BIT BLOB
BOOLEAN BOTH BREAK BY CALL CASCADE CASE CAST CHAR CHARACTER CHECK CLOB COLLATE COLUMN COMMENT
COMMIT CONDITION CONNECT CONSTRAINT CONTINUE CONVERT COUNT CREATE CROSS CURRENT CURRENT_DATE
CURRENT_TIME CURRENT_TIMESTAMP CURSOR DATABASE DATE DAY DEC DECIMAL DECLARE DEFAULT DELETE
DESC DESCRIBE DISTINCT DO DOUBLE DROP EACH ELSE ELSEIF END ESCAPE EXCEPT EXEC EXECUTE EXISTS
EXIT EXPLAIN EXTEND EXTERNAL FALSE FETCH FILTER FLOAT FOR FOREIGN FROM FULL FUNCTION GENERATED
GLOBAL GRANT GROUP HAVING HOLD HOUR IDENTIFIED IF IGNORE ILIKE IN INDEX INNER INOUT
INSENSITIVE INSERT INT INTEGER INTERSECT INTERVAL INTO IS ITERATE JOIN KEY LANGUAGE LEADING
LEAVE LEFT LIKE LIMIT LOCAL LOCALTIME LOCALTIMESTAMP LOCK LOOP MATCH MAX MERGE MIN MINUTE
MODIFIES MODULE MONTH NATURAL NCHAR NEW NO NOT NULL NUMERIC OF OFFSET OLD ON ONLY OPEN OR
ORDER OUT OUTER OVER PARTITION PERCENT PLACING POSITION PRECISION PRIMARY PROCEDURE RANGE
READS REAL RECURSIVE REFERENCES REGEXP RELEASE RENAME REPEAT REPLACE RESIGNAL RESTRICT RETURN
REVOKE RIGHT RLIKE ROLE ROLLBACK ROW ROWNUM ROWS SAVEPOINT SCHEMA SELECT SENSITIVE SESSION SET
SIGNAL SMALLINT SOME SPECIFIC SQL SQLEXCEPTION SQLSTATE SQLWARNING START STATIC SUBSTRING SUM
SYSDATE TABLE TERMINATED THEN TIME TIMESTAMP TO TOP TRAILING TRIGGER TRUE UNDO UNION UNIQUE
UNKNOWN UNLOCK UPDATE USAGE USER USING VALUE VALUES VARCHAR VARYING VIEW WHEN WHERE WHILE WITH
WITHIN YEAR ZONE
"""
RESERVED_WORDS = frozenset(_WORDS.split())


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
class SchemaTable:
    """A table and its keys, in the order of its columns."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A database's tables."""

    db_id: str
    tables: tuple[SchemaTable, ...]


def read_tables(path: Path) -> dict[str, Schema]:
    """The schemas in a ``tables.json``, by database."""
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
    """The schema that a SQLite file declares; for a database that no tables.json describes."""
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
    keys = entry["primary_keys"]
    primary = [index for key in keys for index in (key if isinstance(key, list) else [key])]

    def table(number: int) -> SchemaTable:
        own = [index for index, (owner, _) in enumerate(columns) if owner == number]
        return SchemaTable(
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


def _declared(connection: sqlite3.Connection, name: str) -> SchemaTable:
    columns = connection.execute(
        "SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", (name,)
    ).fetchall()
    keys = connection.execute(
        'SELECT "from", "table", coalesce("to", "from") FROM pragma_foreign_key_list(?) '
        "ORDER BY id DESC, seq",
        (name,),
    ).fetchall()
    primary = sorted((place, column) for column, _, place in columns if place)
    return SchemaTable(
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


LONGEST_EXAMPLES = 6

Examples = Mapping[tuple[str, str], Sequence[Any]]
"""Example values by table and column, both in lower case."""


def schema_text(schema: Schema, examples: Examples) -> str:
    """The tables of ``schema``; columns show up to six distinct examples, as Python writes them."""
    return "\n\n".join(_create(table, examples) for table in schema.tables if table.columns)


def quoted(name: str) -> str:
    """A name in backticks if it is a reserved word or has a character that names do not have.

    >>> quoted("Name"), quoted("Year"), quoted("Free Meals (%)")
    ('Name', '`Year`', '`Free Meals (%)`')
    """
    if name.upper() in RESERVED_WORDS or re.search(r"[^a-zA-Z0-9_]", name):
        return f"`{name}`"
    return name


def _create(table: SchemaTable, examples: Examples) -> str:
    lines = [
        _column(column, examples.get((table.name.lower(), column.name.lower()), ()))
        for column in table.columns
    ]
    if table.primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(map(quoted, table.primary_key))}),")
    for key in table.foreign_keys:
        name = f"fk_{table.name}_{key.column}".lower().replace(" ", "_")
        lines.append(
            f"CONSTRAINT {name} FOREIGN KEY ({quoted(key.column)}) "
            f"REFERENCES {quoted(key.target_table)} ({quoted(key.target_column)}),"
        )
    body = "\n".join(f"    {line}" for line in lines)
    return f"CREATE TABLE {quoted(table.name)} (\n{body.removesuffix(',')}\n);"


def _column(column: Column, examples: Sequence[Any]) -> str:
    shown = list(dict.fromkeys([*examples, *column.values]))[:LONGEST_EXAMPLES]
    comment = column.comment.lower()
    spellings = (comment, comment.replace(" ", "_"), comment.replace(" ", ""))
    says_more = comment.strip() and column.name.lower() not in spellings
    notes = [column.comment] if says_more else []
    if shown:
        notes.append(f"example: {shown}")
    return f"{quoted(column.name)} {column.kind}," + (f" -- {', '.join(notes)}" if notes else "")
