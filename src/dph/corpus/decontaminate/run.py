"""Decontamination of a corpus against named test sets."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
import numpy as np
import pyarrow as pa
from dph.corpus.decontaminate.test_sets import normalised_queries
from dph.corpus.decontaminate.test_sets import (
    DATABASE,
    ENTRY_POINT,
    GRAM,
    QUERY,
    WORD,
    WORDS,
    TestSets,
    read_index,
)
from dph.corpus.dedup.signatures import shingle_hashes
from dph.corpus.documents import Document
from dph.corpus.stage import Drop, Outcome
from collections.abc import Mapping, Sequence
from pathlib import Path
from dph._base.files import make_directory, sha256
from dph.corpus.decontaminate.test_sets import ENTRY_POINT, write_index
from dph.corpus.shards import Corpus
from dph.corpus.stage import StageSpec
from dph.corpus.stage_run import OnProgress, run_stage
from dph.corpus.tasks import Workers
from dph.errors import SettingsError


# A document beside the test sets: what of them it holds.

CHECKS = (GRAM, ENTRY_POINT, QUERY, DATABASE)
"""What a document can be compared by."""

_DEFINITION = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*\(", re.MULTILINE)


class Decontamination:
    """Drops documents that share something with a test set, and says what."""

    def __init__(self, sets: TestSets, checks: Mapping[str, Any]) -> None:
        self._sets = sets
        self._checks = [check for name, check in self._all().items() if name in checks["checks"]]

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """None of its own."""
        return {}

    def __call__(self, document: Document) -> Outcome:
        """Keep the document, or drop it for all that it shares."""
        drops = [drop for check in self._checks for drop in check(document)]
        if not drops:
            return Outcome(document)
        return Outcome(None, drops, counts={f"{drop.reason} {drop.note}": 1 for drop in drops})

    def _all(self) -> dict[str, Any]:
        return {
            GRAM: self._words,
            ENTRY_POINT: self._entry_points,
            QUERY: self._queries,
            DATABASE: self._databases,
        }

    def _words(self, document: Document) -> Iterator[Drop]:
        text, grams = document.text.lower(), self._sets.grams
        hashes = shingle_hashes(text, WORDS)
        if not len(hashes) or not len(grams):
            return
        places = np.minimum(np.searchsorted(grams, hashes), len(grams) - 1)
        hits = np.flatnonzero(grams[places] == hashes)
        by_set: dict[str, list[int]] = {}
        for hit in hits.tolist():
            by_set.setdefault(self._sets.gram_sets[places[hit]], []).append(hit)
        words = WORD.findall(text) if by_set else []
        for name, found in sorted(by_set.items()):
            shared = " ".join(words[found[0] : found[0] + WORDS])
            yield Drop(f"{GRAM}:{name}", value=float(len(found)), threshold=">= 1", note=shared)

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


def decontaminate(
    source: Corpus,
    out: Path,
    *,
    sets: Mapping[str, Path],
    checks: Sequence[str] = DEFAULT_CHECKS,
    workers: Workers = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Drop the documents of ``source`` that share something with a test set.

    Args:
        source: what is read.
        out: the directory to write.
        sets: files of tests by the names that the report uses (``test_sets.write_index``).
        checks: of ``CHECKS``, those to be made.
        workers: processes, or a cluster.
        on_progress: told of finished shards.

    Raises:
        SettingsError: there is no set, or a check is unknown.
        DataError: a file cannot be read.
    """
    if unknown := [check for check in checks if check not in CHECKS]:
        raise SettingsError(f"a check is one of {', '.join(CHECKS)}, got {unknown[0]!r}")
    if not sets or not checks:
        raise SettingsError("need at least one test set and one check")
    index = make_directory(out) / "tests.parquet"
    write_index(sets, index)
    spec = StageSpec(
        name="decontaminate",
        entry="dph.corpus.decontaminate.run:make_stage",
        settings={"checks": sorted(checks), "sets": sorted(sets)},
        inputs={"index": sha256(index)},
        files={"index": str(index.resolve())},
    )
    return run_stage(spec, source, out, workers=workers, on_progress=on_progress)
