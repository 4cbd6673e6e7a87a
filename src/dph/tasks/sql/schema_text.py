"""A schema as CREATE TABLE statements, with example values beside the columns."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dph.tasks.sql.reserved_words import RESERVED_WORDS
from dph.tasks.sql.schema import Column, Schema, Table

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


def _create(table: Table, examples: Examples) -> str:
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
    notes = [] if _says_the_name(column) else [column.comment]
    if shown:
        notes.append(f"example: {shown}")
    return f"{quoted(column.name)} {column.kind}," + (f" -- {', '.join(notes)}" if notes else "")


def _says_the_name(column: Column) -> bool:
    comment = column.comment.lower()
    spellings = (comment, comment.replace(" ", "_"), comment.replace(" ", ""))
    return not comment.strip() or column.name.lower() in spellings
