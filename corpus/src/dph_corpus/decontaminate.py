"""Decontamination of a corpus against named test sets."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dph._base.files import atomic_file, make_directory, sha256
from dph._base.files.rows import read_rows
from dph.errors import DataError, SettingsError
from dph.tasks.verifiers.sql.tokens import Token, TokenKind, tokenize
from dph_corpus.dedup.signatures import WITHOUT_BLANKS, hashes_of_runs, words_in
from dph_corpus.documents import Document
from dph_corpus.shards import Corpus
from dph_corpus.stage import DocumentOutcome, Drop, StageSpec
from dph_corpus.stage_run import OnProgress, require_other_directory, run_stage, sole_writer
from dph_corpus.tables import TableWriter, read_table, schema_of

# Test sets as an index: their runs of 10 words, short items, functions they ask for, queries.

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


LENGTHS = {False: range(7, 11), True: range(14, 21)}
"""In a row that a document must not share with a test, the last of them: words, or characters of a
script without blanks. A shorter item is looked for as a whole; one below the first is anybody's."""

INDEX = schema_of("tests")
"""The columns of the index: a row for each thing that is looked for."""

_NUMBER = re.compile(r"\d\w*|_+|[a-z]")
"""A word that says nothing by itself: 12, 0x1f, 1e5, or a letter, as in lists of letters."""
GRAM, ENTRY_POINT, QUERY, DATABASE = "words", "entry_point", "query", "database"
"""The kinds of things that are looked for."""
_ITEMS = (
    *("question", "problem", "question_content", "instruction", "text", "prompt", "description"),
    *("task", "input", "content"),
)
"""Columns of what a test asks, best first; without any it is the longest text of the row."""
_QUERIES, _DATABASES = ("query", "sql", "SQL", "gold_sql"), ("db_id", "database")


@dataclass(frozen=True, slots=True)
class TestSets:
    """The texts to look for.

    ``grams`` is ascending, and ``gram_sets`` says which set each of them is of; the other three
    are test sets by name.
    """

    __test__ = False  # the name is no test of pytest's

    grams: NDArray[np.uint64]
    gram_sets: NDArray[np.object_]
    entry_points: Mapping[str, str]
    queries: Mapping[str, str]
    databases: Mapping[str, str]


def write_index(sets: Mapping[str, Path], path: Path) -> dict[str, tuple[int, int]]:
    """Write the index of test sets, by their names, to ``path``.

    Rows may have an ``entry_point``, a ``query`` (or sql, SQL, gold_sql) and a ``db_id``; every
    text in them counts by its runs of 10 words, but for runs of numbers alone, and by those of 20
    characters of scripts without blanks. What a row asks counts as a whole where it is shorter.
    What two sets share is told of the first by name.

    Returns:
        For each set how many of its items are too short to be found, and how many it has.
    """
    found: dict[tuple[str, str, int], str] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for name in sorted(sets):
        count = short = 0
        for place, row in read_rows(sets[name]):
            if not isinstance(row, dict):
                raise DataError(f"{place}: a row is a JSON object, got {row!r:.80}")
            item = _item(row)
            count, short = count + 1, short + (not item)
            for key in (*_things(row), *((GRAM, "", value) for value in item)):
                found.setdefault(key, name)
        if not count:
            raise DataError(f"the test set {name} ({sets[name]}) has no rows")
        sizes[name] = short, count
    with atomic_file(path) as temporary, TableWriter(temporary, INDEX) as table:
        for (kind, thing, value), name in sorted(found.items()):
            table.write({"kind": kind, "set": name, "name": thing, "hash": value})
    return sizes


def read_index(path: Path) -> TestSets:
    """The index at ``path``."""
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
        yield from ((GRAM, "", value) for value in _grams(_plain_text(text)))
    name = row.get("entry_point")
    if isinstance(name, str) and name and not name.startswith("__"):
        yield ENTRY_POINT, name, 0
    for column in _QUERIES:
        if isinstance(row.get(column), str):
            yield from ((QUERY, query, 0) for query in normalised_queries(row[column]))
    for column in _DATABASES:
        if isinstance(row.get(column), str) and row[column]:
            yield DATABASE, row[column], 0


def _item(row: Mapping[str, Any]) -> list[int]:
    """The runs of what a row asks, or all of it as one run; [] if that is too short."""
    named = {str(name).lower(): [*_texts(value)] for name, value in row.items()}
    texts = next((named[name] for name in _ITEMS if any(named.get(name, ()))), [*_texts(row)])
    text = _plain_text(max(texts, key=len, default=""))
    found = _grams(text)
    for apart, lengths in LENGTHS.items() if not found else ():
        if (length := len(words_in(text, apart=apart)[0])) in lengths[:-1]:
            found += _runs(text, apart, length, length // 2 + 1)
    return found


def _plain_text(text: str) -> str:
    r"""``text`` with a blank for each escape (\n in a string), as NFC, in lower case."""
    return unicodedata.normalize("NFC", re.sub(r"\\[nrt]", " ", text)).lower()


def _grams(text: str) -> list[int]:
    """The runs of 10 words, without those of numbers and letters alone, which any table has."""
    found = _runs(text, False, LENGTHS[False][-1], 1)
    if WITHOUT_BLANKS.search(text):
        found += _runs(text, True, LENGTHS[True][-1], LENGTHS[True][-1] // 2)
    return found


def _runs(text: str, apart: bool, length: int, least: int) -> list[int]:
    """The runs of that many words of which at least ``least`` say something."""
    hashes, starts, ends = words_in(text, apart=apart)
    if len(hashes) < length:
        return []
    words = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    if apart:
        telling = [WITHOUT_BLANKS.match(word) is not None for word in words]
    else:
        telling = [len(word) >= min(least, 2) and not _NUMBER.fullmatch(word) for word in words]
    in_a_row = np.convolve(telling, np.ones(length, dtype=int), mode="valid")
    found: list[int] = hashes_of_runs(hashes, length)[in_a_row >= least].tolist()
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


# A document beside the test sets: what of them it holds.

CHECKS = (GRAM, ENTRY_POINT, QUERY, DATABASE)
"""Keys that a document can be compared by."""

_TAIL = np.uint64(64 - 22)
_DEFINITION = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*\(", re.MULTILINE)


class Decontamination:
    """Drops documents that share something with a test set, and says what."""

    tables: Mapping[str, pa.Schema] = MappingProxyType({})

    def __init__(self, sets: TestSets, checks: Mapping[str, Any]) -> None:
        self._sets = sets
        self._heads = np.zeros(1 << 22, dtype=np.bool_)  # rules most runs out at a look
        self._heads[sets.grams >> _TAIL] = True
        known = {
            GRAM: self._words,
            ENTRY_POINT: self._entry_points,
            QUERY: self._queries,
            DATABASE: self._databases,
        }
        self._checks = [check for name, check in known.items() if name in checks["checks"]]

    def __call__(self, document: Document) -> DocumentOutcome:
        """Keep the document, or drop it for all that it shares."""
        drops = [drop for check in self._checks for drop in check(document)]
        if not drops:
            return DocumentOutcome(document)
        return DocumentOutcome(
            None, drops, counts={f"{drop.reason} {drop.note}": 1 for drop in drops}
        )

    def _words(self, document: Document) -> Iterator[Drop]:
        text, grams = _plain_text(document.text), self._sets.grams
        shared: dict[str, list[str]] = {}
        for apart, lengths in LENGTHS.items() if len(grams) else ():
            if apart and (text.isascii() or not WITHOUT_BLANKS.search(text)):
                continue
            hashes, starts, ends = words_in(text, apart=apart)
            for length in lengths:
                found = hashes_of_runs(hashes, length)
                maybe = np.flatnonzero(self._heads[found >> _TAIL])
                places = np.minimum(np.searchsorted(grams, found[maybe]), len(grams) - 1)
                same = grams[places] == found[maybe]
                for hit, place in zip(maybe[same].tolist(), places[same].tolist(), strict=True):
                    run = zip(starts[hit : hit + length], ends[hit : hit + length], strict=True)
                    words = ("" if apart else " ").join(text[start:end] for start, end in run)
                    shared.setdefault(self._sets.gram_sets[place], []).append(words)
        for name, runs in sorted(shared.items()):
            yield Drop(f"{GRAM}:{name}", value=float(len(runs)), threshold=">= 1", note=runs[0])

    def _entry_points(self, document: Document) -> Iterator[Drop]:
        for name in sorted({*_DEFINITION.findall(document.text)} & {*self._sets.entry_points}):
            yield Drop(f"{ENTRY_POINT}:{self._sets.entry_points[name]}", note=name)

    def _queries(self, document: Document) -> Iterator[Drop]:
        if document.language != "sql" or not self._sets.queries:
            return
        for query in sorted({*normalised_queries(document.text)} & {*self._sets.queries}):
            yield Drop(f"{QUERY}:{self._sets.queries[query]}", note=query[:200])

    def _databases(self, document: Document) -> Iterator[Drop]:
        parts = document.path.split("/")
        names = {*parts[:-1], parts[-1].partition(".")[0], *document.repo.split("/")}
        for name in sorted(names & {*self._sets.databases}):
            yield Drop(f"{DATABASE}:{self._sets.databases[name]}", note=name)


def make_stage(settings: Mapping[str, Any]) -> Decontamination:
    """The stage of ``settings``: ``checks``, and the index among its ``files``."""
    return Decontamination(read_index(Path(settings["files"]["index"])), settings)


DEFAULT_CHECKS = tuple(check for check in CHECKS if check != ENTRY_POINT)
"""Names of functions are left to rows of questions and answers: in 5,456 well-kept Python files
168 define one of HumanEval's and MBPP's names, and one shares ten words with a test."""


TOO_SHORT = "too_short"
"""Setting in the manifest: for a set the items that are too short to be found, and all."""


def decontaminate(
    source: Corpus,
    out: Path,
    *,
    sets: Mapping[str, Path],
    checks: Sequence[str] = DEFAULT_CHECKS,
    workers: int = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Drop the documents of ``source`` that share something with a test set."""
    if unknown := [check for check in checks if check not in CHECKS]:
        raise SettingsError(f"a check is one of {', '.join(CHECKS)}, got {unknown[0]!r}")
    if not sets or not checks:
        raise SettingsError("need at least one test set and one check")
    require_other_directory(out, source)
    index = make_directory(out) / "tests.parquet"
    for path in sets.values():
        if path.resolve() == index.resolve():
            raise DataError(f"{path} is an input and would be overwritten: write to another place")
    with sole_writer(out):
        sizes = write_index(sets, index)
    short = {name: [*size] for name, size in sizes.items() if size[0] and GRAM in checks}
    spec = StageSpec(
        name="decontaminate",
        version=3,
        entry="dph_corpus.decontaminate:make_stage",
        settings={"checks": sorted(checks), "sets": sorted(sets), TOO_SHORT: short},
        inputs={"index": sha256(index)},
        files={"index": str(index.resolve())},
    )
    return run_stage(spec, source, out, workers=workers, on_progress=on_progress)
