"""Questions and SQL from a schema alone: a writer for ``[synth]`` that needs no model.

It reads the ``CREATE TABLE`` statements of a prompt (``dph_corpus.synth.seeds``), with example
values next to the columns, and fills one of a few forms, drawn by the seed. It asks in the names of
the columns, which a model would not; whether the query runs and tells anything, the judge finds.
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

_TABLE = re.compile(r"^CREATE TABLE (`[^`]+`|\w+) \(\n(.*?)\n\);", re.DOTALL | re.MULTILINE)
_COLUMN = re.compile(
    r"^ +(`[^`]+`|\w+) (INTEGER|REAL|NUMERIC|TEXT)\b.*?(?:example: (\[.*\]))?$", re.MULTILINE
)
_KEY = re.compile(r"FOREIGN KEY \((`[^`]+`|\w+)\) REFERENCES (`[^`]+`|\w+) \((`[^`]+`|\w+)\)")
_KEYS = re.compile(r"(?:PRIMARY|FOREIGN) KEY \(([^)]+)\)")
_COMPARISONS = {"above": ">", "below": "<", "of at least": ">=", "of at most": "<="}
_AGGREGATES = {"average": "AVG", "largest": "MAX", "smallest": "MIN", "total": "SUM"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """A table as a prompt shows it; ``keys`` are (column, other table, its column)."""

    name: str
    numbers: Mapping[str, Sequence[float]]
    texts: Mapping[str, Sequence[str]]
    keys: Sequence[tuple[str, str, str]]


def write(prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
    r"""A question and a query for each prompt, by its seed; '' where none can be asked.

    >>> prompt = "CREATE TABLE ship (\n    guns INTEGER, -- example: [51, 17]\n);"
    >>> print(write([prompt], [3])[0])
    Question: What is the average guns of a ship with guns of at most 51?
    <BLANKLINE>
    ```sql
    SELECT AVG(guns) FROM ship WHERE guns <= 51
    ```
    """
    return [_answer(prompt, Random(seed)) for prompt, seed in zip(prompts, seeds, strict=True)]


def _answer(prompt: str, draw: Random) -> str:
    tables = {name: _table(name, body) for name, body in _TABLE.findall(prompt)}
    asked = [table for table in tables.values() if table.numbers]
    if not asked:
        return ""
    table = draw.choice(asked)
    forms: list[Callable[[], tuple[str, str]]] = [lambda: _aggregate(table, draw)]
    if table.texts:
        forms += [
            lambda: _list(table, draw),
            lambda: _first(table, draw),
            lambda: _groups(table, draw),
        ]
        forms += [
            lambda key=key: _joined(table, tables[key[1]], key, draw)  # type: ignore[misc]
            for key in table.keys
            if key[1] in tables and tables[key[1]].numbers
        ]
    question, query = draw.choice(forms)()
    return f"Question: {question}\n\n```sql\n{query}\n```"


def _table(name: str, body: str) -> _Table:
    numbers, texts = {}, {}
    keys = {column.strip() for listed in _KEYS.findall(body) for column in listed.split(",")}
    for column, kind, examples in _COLUMN.findall(body):
        if column in keys:
            continue
        values = ast.literal_eval(examples) if examples else []
        if kind == "TEXT":
            texts[column] = values
        elif values and all(isinstance(value, int | float) for value in values):
            numbers[column] = values
    return _Table(name=name, numbers=numbers, texts=texts, keys=_KEY.findall(body))


def _condition(table: _Table, draw: Random) -> tuple[str, str]:
    """A condition on a number, in words and in SQL; its bound is an example value."""
    column = draw.choice(list(table.numbers))
    phrase = draw.choice(list(_COMPARISONS))
    bound = draw.choice(list(table.numbers[column]))
    return f"{_plain(column)} {phrase} {bound}", f"{column} {_COMPARISONS[phrase]} {bound}"


def _aggregate(table: _Table, draw: Random) -> tuple[str, str]:
    said, condition = _condition(table, draw)
    word, column = draw.choice(list(_AGGREGATES)), draw.choice(list(table.numbers))
    return (
        f"What is the {word} {_plain(column)} of a {_plain(table.name)} with {said}?",
        f"SELECT {_AGGREGATES[word]}({column}) FROM {table.name} WHERE {condition}",
    )


def _list(table: _Table, draw: Random) -> tuple[str, str]:
    said, condition = _condition(table, draw)
    column = draw.choice(list(table.texts))
    return (
        f"Show the {_plain(column)} of each {_plain(table.name)} with {said}.",
        f"SELECT {column} FROM {table.name} WHERE {condition}",
    )


def _first(table: _Table, draw: Random) -> tuple[str, str]:
    column, number = draw.choice(list(table.texts)), draw.choice(list(table.numbers))
    word, order = draw.choice((("largest", "DESC"), ("smallest", "ASC")))
    return (
        f"Which {_plain(column)} has the {_plain(table.name)} with the {word} {_plain(number)}?",
        f"SELECT {column} FROM {table.name} ORDER BY {number} {order} LIMIT 1",
    )


def _groups(table: _Table, draw: Random) -> tuple[str, str]:
    said, condition = _condition(table, draw)
    column = draw.choice(list(table.texts))
    return (
        f"For each {_plain(column)}, how many are there of {_plain(table.name)} with {said}?",
        f"SELECT {column}, COUNT(*) FROM {table.name} WHERE {condition} GROUP BY {column}",
    )


def _joined(
    table: _Table, other: _Table, key: tuple[str, str, str], draw: Random
) -> tuple[str, str]:
    said, condition = _condition(other, draw)
    column = draw.choice(list(table.texts))
    return (
        f"Show the {_plain(column)} of each {_plain(table.name)} whose {_plain(other.name)} has "
        f"{said}.",
        f"SELECT a.{column} FROM {table.name} AS a JOIN {other.name} AS b "
        f"ON a.{key[0]} = b.{key[2]} WHERE b.{condition}",
    )


def _plain(name: str) -> str:
    return name.strip("`").replace("_", " ")
