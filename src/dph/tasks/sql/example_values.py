"""Example values for a prompt: the first of each column, and those that the question speaks of.

**Source**: the prompts of OmniSQL (arXiv:2503.02240), which the paper's follow. Texts of the
database are ranked by BM25 for every run of words of the question, and those of which more than
85% stand in the question are shown before the first two values of a column.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.tasks.sql.retrieval.bm25 import BM25
from dph.tasks.sql.retrieval.bm25 import queries
from dph.tasks.sql.schema import Examples
from dph.tasks.verifiers.sql.executor import database_uri

_LONGEST_TEXT = 40
_FIRST_VALUES = 2
_HITS_PER_QUERY = 10
_HITS_SHOWN = 20
_LEAST_OVERLAP = 0.85
VALUES_PER_COLUMN = 200_000
"""Distinct values of a column that are searched; bounds the memory of a very large database."""


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text of the database and the column it is in."""

    table: str
    column: str
    text: str


class ExampleValues:
    """The example values of one database. The file is read once, and only read.

    Raises:
        DataError: the file is missing or is not a database.
    """

    def __init__(self, database: Path) -> None:
        if not database.is_file():
            raise DataError(f"there is no database {database}")
        self._first: dict[tuple[str, str], list[Any]] = {}
        self._texts: list[StoredText] = []
        keys: list[str] = []
        try:
            with closing(_connect(database)) as connection:
                for table, column in _columns(connection):
                    self._first[table.lower(), column.lower()] = _first(connection, table, column)
                    if table == "sqlite_sequence":  # shown where a schema lists it, not searched
                        continue
                    for number, text in enumerate(_texts(connection, table, column)):
                        if 0 < len(text) <= _LONGEST_TEXT:
                            self._texts.append(StoredText(table, column, text))
                            keys.append(f"{table}-**-{column}-**-{number}")
        except sqlite3.Error as error:
            raise DataError(f"cannot read the database {database}: {error}") from error
        self._index = BM25([stored.text for stored in self._texts], keys)

    def of(self, question: str) -> Examples:
        """Example values by table and column, those that ``question`` names first."""
        found: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
        for stored in self._named_in(question):
            found[stored.table.lower(), stored.column.lower()].append(stored.text)
        for column, values in self._first.items():
            found[column] += values
        return found

    def _named_in(self, question: str) -> Sequence[StoredText]:
        hits = dict.fromkeys(
            document
            for query in queries(question)
            for document in self._index.search(query, limit=_HITS_PER_QUERY)
        )
        ranked = []
        for place, document in enumerate(hits):
            text = self._texts[document].text
            overlap = overlap_share(text, question)
            if overlap > _LEAST_OVERLAP:
                ranked.append((overlap, len(text), place, document))
        ranked.sort(reverse=True)
        return [self._texts[document] for *_, document in ranked[:_HITS_SHOWN]]


def overlap_share(text: str, question: str) -> float:
    """The longest part of ``text`` that stands in ``question``, as a share of ``text``.

    Upper and lower case are the same.

    >>> overlap_share("Dogs", "How many dog owners?")
    0.75
    """
    text, question = text.lower(), question.lower()
    longest = 0
    for start in range(len(text)):
        while start + longest < len(text) and text[start : start + longest + 1] in question:
            longest += 1
    return longest / len(text)


def _connect(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(database_uri(database), uri=True)
    connection.text_factory = lambda text: text.decode("utf-8", "ignore")
    return connection


def _columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [
        (table, column)
        for (table,) in rows
        for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    ]


def _first(connection: sqlite3.Connection, table: str, column: str) -> list[Any]:
    """The first distinct values; which come first is for SQLite to say (an index changes it)."""
    name = _quote(column)
    rows = connection.execute(
        f"SELECT {name} FROM (SELECT DISTINCT {name} FROM {_quote(table)} "
        f"WHERE {name} IS NOT NULL AND {name} != '') LIMIT {_FIRST_VALUES}"
    )
    return [value[:_LONGEST_TEXT] if isinstance(value, str) else value for (value,) in rows]


def _texts(connection: sqlite3.Connection, table: str, column: str) -> list[str]:
    name = _quote(column)
    rows = connection.execute(
        f"SELECT DISTINCT {name} FROM {_quote(table)} WHERE {name} IS NOT NULL "
        f"LIMIT {VALUES_PER_COLUMN}"
    )
    return [value for (value,) in rows if isinstance(value, str) and not _is_number(value)]


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
