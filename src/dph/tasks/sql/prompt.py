"""The paper's prompt for text-to-SQL: schema with example values, evidence, question."""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.tasks.sql.retrieval import BM25, queries
from dph.tasks.sql.schema import Examples, Schema, read_schema, schema_text
from dph.tasks.verifiers.sql.executor import database_uri

# Example values for a prompt: the first of each column, and those that the question speaks of.
#
# **Source**: the prompts of OmniSQL (arXiv:2503.02240), which the paper's follow. Texts of the
# database are ranked by BM25 for every run of words of the question, and those of which more than
# 85% stand in the question are shown before the first two values of a column.

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
    """The example values of one database. The file is read once, and only read."""

    def __init__(self, database: Path) -> None:
        if not database.is_file():
            raise DataError(f"there is no database {database}")
        self._first: dict[tuple[str, str], list[Any]] = {}
        self._texts: list[StoredText] = []
        keys: list[str] = []
        try:
            with closing(sqlite3.connect(database_uri(database), uri=True)) as connection:
                connection.text_factory = lambda text: text.decode("utf-8", "ignore")
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


_DATABASES_HELD = 4

_PROMPT = """\
Task Overview:
You are a data science expert. Below, you are provided with a database schema and a natural \
language question. Your task is to understand the schema and generate a valid SQL query to answer \
the question.

Database Engine:
SQLite

Database Schema:
{schema}
This schema describes the database's structure, including tables, columns, primary keys, foreign \
keys, and any relevant relationships or constraints.

Question:
{question}

Instructions:
- Make sure you only output the information that is asked in the question. If the question asks \
for a specific column, make sure to only include that column in the SELECT clause, nothing more.
- The generated query should return all of the information asked in the question without any \
missing or extra information.
- Before generating the final SQL query, please think through the steps of how to write the query.

Output Format:
In your answer, please enclose the generated SQL query in a code block:
```sql
-- Your SQL query
```

Take a deep breath and think step by step to find the correct SQL query.
"""


class SQLPrompts:
    """Writes prompts for questions on the databases of one directory.

    Args:
        databases: holds ``<db_id>/<db_id>.sqlite``; None if there are none, and prompts then
            show the example values that the schemas bring along.
        schemas: by database, from a tables.json; a database that is not among them is described
            by what its file declares.
    """

    def __init__(self, *, databases: Path | None, schemas: Mapping[str, Schema]) -> None:
        self._databases = databases
        self._schemas = schemas
        # Questions come database by database, more or less; a large index is dropped in time.
        self._values = lru_cache(maxsize=_DATABASES_HELD)(ExampleValues)

    def prompt(self, db_id: str, question: str, evidence: str = "") -> str:
        """The prompt of a question; the evidence stands on the line before it."""
        asked = f"{evidence}\n{question}" if evidence.strip() else question
        if self._databases is None:
            if db_id not in self._schemas:
                raise DataError(f"found neither a database nor a schema of {db_id!r}")
            return sql_prompt(schema_text(self._schemas[db_id], {}), asked)
        file = self._databases / database_file(db_id)
        schema = self._schemas.get(db_id) or read_schema(file)
        return sql_prompt(schema_text(schema, self._values(file).of(asked)), asked)


def sql_prompt(schema: str, question: str) -> str:
    """The paper's prompt around a schema's text and a question."""
    # Not str.format: braces in either have to stay.
    before, between, after = _PROMPT.replace("{question}", "{schema}").split("{schema}")
    return f"{before}{schema}{between}{question}{after}"


def database_file(db_id: str) -> str:
    """Path of a database in the directory of databases.

    >>> database_file("pets_1")
    'pets_1/pets_1.sqlite'
    """
    return f"{db_id}/{db_id}.sqlite"
