"""Test sets as an index: their runs of 10 words, the functions they ask for, their queries."""

from collections.abc import Iterator
from dph.tasks.verifiers.sql.tokens import Token, TokenKind, tokenize
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from dph._base.files import atomic_file
from dph._base.files.rows import read_rows
from dph.corpus.dedup.signatures import shingle_hashes
from dph.corpus.tables import TableWriter, read_table
from dph.errors import DataError


# SQL queries in a form in which spelling does not count.

LEAST_TOKENS = 6
"""A shorter query (``SELECT count(*) FROM t``) is anybody's."""

_SAME = {"==": "=", "<>": "!="}


def normalised_queries(text: str) -> Iterator[str]:
    """The statements of ``text`` that are long enough, normalised.

    Comments, white space, the case and quotes of names, AS, and the spelling of ``=`` and ``!=``
    do not count; literals do.

    >>> list(normalised_queries('SELECT "A" AS x FROM t WHERE B<>1; -- why'))
    ['select a x from t where b != 1']
    """
    statement: list[str] = []
    for token in tokenize(text):
        if token.text == ";" and token.kind is TokenKind.SYMBOL:
            yield from _long_enough(statement)
            statement = []
        elif token.word != "AS":
            statement.append(_plain(token))
    yield from _long_enough(statement)


def _plain(token: Token) -> str:
    if token.kind is TokenKind.QUOTED_NAME:
        return token.text[1:-1].lower()
    if token.kind is TokenKind.WORD:
        return token.text.lower()
    return _SAME.get(token.text, token.text)


def _long_enough(statement: list[str]) -> Iterator[str]:
    if len(statement) >= LEAST_TOKENS:
        yield " ".join(statement)


WORDS = 10
"""In a row that a document must not share with a test."""

INDEX = pa.schema(
    [(name, pa.string()) for name in ("kind", "set", "name")] + [("hash", pa.uint64())]
)
"""The columns of the index: a row for each thing that is looked for."""

WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d\w*|_+|[a-z]")
"""A word that says nothing by itself: 12, 0x1f, 1e5, or a letter, as in lists of letters."""
GRAM, ENTRY_POINT, QUERY, DATABASE = "words", "entry_point", "query", "database"
"""The kinds of things that are looked for."""
_QUERIES, _DATABASES = ("query", "sql", "SQL", "gold_sql"), ("db_id", "database")


@dataclass(frozen=True, slots=True)
class TestSets:
    """What is looked for.

    ``grams`` is ascending, and ``gram_sets`` says which set each of them is of; the other three
    are test sets by name.
    """

    __test__ = False  # the name is no test of pytest's

    grams: NDArray[np.uint64]
    gram_sets: NDArray[np.object_]
    entry_points: Mapping[str, str]
    queries: Mapping[str, str]
    databases: Mapping[str, str]


def write_index(sets: Mapping[str, Path], path: Path) -> None:
    """Write the index of test sets, by their names, to ``path``.

    Rows may have an ``entry_point``, a ``query`` (or sql, SQL, gold_sql) and a ``db_id``; every
    text in them counts by its runs of 10 words, but for runs of numbers alone. What two sets share
    is told of the first by name.

    Raises:
        DataError: a file cannot be read, has no rows, or a row is not an object.
    """
    found: dict[tuple[str, str, int], str] = {}
    for name in sorted(sets):
        count = 0
        for place, row in read_rows(sets[name]):
            if not isinstance(row, dict):
                raise DataError(f"{place}: a row is a JSON object, got {row!r:.80}")
            count += 1
            for key in _things(row):
                found.setdefault(key, name)
        if not count:
            raise DataError(f"the test set {name} ({sets[name]}) has no rows")
    with atomic_file(path) as temporary, TableWriter(temporary, INDEX) as table:
        for (kind, thing, value), name in sorted(found.items()):
            table.write({"kind": kind, "set": name, "name": thing, "hash": value})


def read_index(path: Path) -> TestSets:
    """The index at ``path``.

    Raises:
        DataError: it cannot be read.
    """
    grams: list[tuple[int, str]] = []
    named: dict[str, dict[str, str]] = {kind: {} for kind in (ENTRY_POINT, QUERY, DATABASE)}
    for row in read_table(path, tuple(INDEX.names)):
        if row["kind"] == GRAM:
            grams.append((row["hash"], row["set"]))
        else:
            named[row["kind"]][row["name"]] = row["set"]
    grams.sort()
    return TestSets(
        np.array([value for value, _ in grams], dtype=np.uint64),
        np.array([name for _, name in grams], dtype=object),
        *(named[kind] for kind in (ENTRY_POINT, QUERY, DATABASE)),
    )


def _things(row: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    for text in _texts(row):
        yield from ((GRAM, "", value) for value in _grams(text.lower()))
    name = row.get("entry_point")
    if isinstance(name, str) and name and not name.startswith("__"):
        yield ENTRY_POINT, name, 0
    for column in _QUERIES:
        if isinstance(row.get(column), str):
            yield from ((QUERY, query, 0) for query in normalised_queries(row[column]))
    for column in _DATABASES:
        if isinstance(row.get(column), str) and row[column]:
            yield DATABASE, row[column], 0


def _grams(text: str) -> list[int]:
    """The runs of 10 words, without those of numbers and letters alone, which any table has."""
    hashes = shingle_hashes(text, WORDS)
    if not len(hashes):
        return []
    numbers = np.array([bool(_NUMBER.fullmatch(word)) for word in WORD.findall(text)], dtype=int)
    in_a_row = np.convolve(numbers, np.ones(WORDS, dtype=int), mode="valid")
    found: list[int] = hashes[in_a_row < WORDS].tolist()
    return found


def _texts(value: Any) -> Iterator[str]:
    """Every text of a row, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
