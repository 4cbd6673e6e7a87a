"""The files that a worker reads of a unit, sorted and kept until the shards are cut."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from email.policy import compat32
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path, make_directory, sha256
from dph._base.files.rows import open_parquet
from dph.errors import DataError
from dph_corpus.documents import FIELDS, DocType, Document, position
from dph_corpus.ingest.archives import archive_files, repository_facts, repository_files
from dph_corpus.ingest.hub_rows import hub_documents
from dph_corpus.ingest.pages import page_documents
from dph_corpus.ingest.reading import ID_TAKEN, RawFile, Skip, document_of, printable, row_documents
from dph_corpus.ingest.sources import SourceKind, Unit, directory_files
from dph_corpus.shard_work import ShardStep, write_shard
from dph_corpus.shards import Flow
from dph_corpus.sorting import batches, merged
from dph_corpus.stage import DocumentOutcome, Drop
from dph_corpus.steps import Care, Step
from dph_corpus.tables import DOCUMENTS, TableWriter, schema_of

# What a source distribution says of itself: its licence, where it lives, when it was made.

_LONGEST_LICENCE = 60
"""Characters; some put the whole text where its name belongs."""


def distribution_facts(path: Path, name: str) -> tuple[str, dict[str, Any]]:
    """The folder that all members lie in, or one called ``name``, and what its PKG-INFO tells.

    It tells licence and URL. Without such a folder it is '', and {} without a PKG-INFO.
    """
    tops, told = set[str](), dict[str, bytes]()
    for file in archive_files(path):
        if isinstance(file, RawFile):
            top, inner = file.path.split("/", 1) if "/" in file.path else ("", file.path)
            tops.add(top)
            if inner == "PKG-INFO":
                told[top] = file.data
    named = tops if len(tops) == 1 else {top for top in tops if _folded(top) == _folded(name)}
    top = min(named, default="")
    return top, dict(_facts(told.get(top) or told.get("", b"")))


def _folded(name: str) -> str:
    """Names of a distribution are the same if they differ in case and in - _ . only (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _facts(data: bytes) -> Iterator[tuple[str, str]]:
    headers = BytesHeaderParser(policy=compat32).parsebytes(data)

    def first(*names: str) -> str:
        values = (str(headers[name]).strip() for name in names if headers[name] is not None)
        return next((value for value in values if value and value != "UNKNOWN"), "")

    licence = first("License-Expression", "License")
    if licence and len(licence) <= _LONGEST_LICENCE and "\n" not in licence:
        yield "licence", licence
    places = [str(value).partition(", ")[2] for value in headers.get_all("Project-URL") or ()]
    if url := first("Home-Page") or next(iter(places), ""):
        yield "url", url


# Cuts spills into the shards of a corpus: each worker takes the documents of one range.


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherShard(ShardStep):
    """Writes the documents of ``spills`` at positions in [low, high)."""

    low: int
    high: int
    spills: Sequence[Path]

    def do(self, care: Care) -> dict[str, Any]:
        """Write each id once."""
        care.announce("")
        documents = gathered(self.spills, self.low, self.high)
        return write_shard(_once_each(documents), "ingest", self.out, self.name)


def gathered(spills: Sequence[Path], low: int, high: int) -> list[Document]:
    """The documents at positions in [low, high), in the order of a corpus.

    Of documents with the same id the one with more stars comes first, then the one changed last;
    then the fields decide, so that the order of the spills does not.
    """
    found = [row for path in spills for row in _rows(path, low, high)]
    found.sort(key=_order)
    return [
        Document(**{name: row[name] for name in FIELDS} | {"doc_type": DocType(row["doc_type"])})
        for row in found
    ]


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(row["position"], row["id"], -row["stars"], -row["commit_time"]),
        *(row[name] for name in FIELDS if name not in ("text", "id", "stars", "commit_time")),
    )


def _rows(path: Path, low: int, high: int) -> Iterator[dict[str, Any]]:
    with open_parquet(path) as file:
        column = file.schema_arrow.names.index("position")
        for group in range(file.metadata.num_row_groups):
            known = file.metadata.row_group(group).column(column).statistics
            if known.min < high and low <= known.max:
                # Only rows of the range become objects: groups at its ends are in two shards.
                rows = file.read_row_group(group, use_threads=False)
                places = rows["position"].to_numpy()
                first = int(np.searchsorted(places, np.uint64(low)))
                last = (
                    len(places)
                    if known.max < high
                    else int(np.searchsorted(places, np.uint64(high)))
                )
                yield from rows.slice(first, last - first).to_pylist()


def _once_each(documents: Sequence[Document]) -> Iterator[tuple[Document, DocumentOutcome]]:
    kept: Document | None = None
    for document in documents:
        if kept is None or document.id != kept.id:
            kept = document
            yield document, DocumentOutcome(document)
            continue
        older = "page_older" if kept.url and kept.id.endswith(kept.url) else ID_TAKEN
        reason = "id_repeated" if document.sha256 == kept.sha256 else older
        yield document, DocumentOutcome(None, [Drop(reason, kept_id=kept.id)])


SPILL = DOCUMENTS.append(pa.field("position", pa.uint64()))
"""The columns of a spill."""
_FORMAT: Mapping[str, Any] = MappingProxyType(
    {"compression": "lz4", "use_dictionary": False, "write_statistics": ["position"]}
)
"""Of spills, which live for minutes and are opened by every shard: fast, with a small footer."""
SKIPPED = schema_of("skipped")
"""The columns of ``skipped``: what did not become a document."""

SKIPPED_FILE = "skipped.parquet"
_SPILL_BYTES = 128_000_000
_GROUP_BYTES = 1_000_000
"""Small, so that little is read beside the range of a shard."""
_ANNOUNCE_EVERY = 200
_SECONDS = 600.0
"""Limit for so many files of a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecesStep(Step):
    """Writes pieces into ``out``, which are known once it is done."""

    out: Path

    @property
    def files(self) -> Mapping[str, Path]:
        """None that are known before."""
        return {}

    def place(self, name: str) -> Path:
        """Place of a piece."""
        return self.out / name


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSpills(PiecesStep):
    """Merges sorted ``runs``, each of files in order, into the files of one run.

    Shards then read the files that have documents of their range, and not all.
    """

    runs: Sequence[Sequence[Path]]

    def do(self, care: Care) -> dict[str, Any]:
        """Merge the runs; the answer has the first and the last position of each piece."""
        care.announce("")
        make_directory(self.out.parent)
        with atomic_path(self.out) as temporary:
            temporary.mkdir()
            ranges = _write_run(temporary, self.runs, care)
        names = sorted(path.name for path in self.out.iterdir())
        return {"files": {name: sha256(self.out / name) for name in names}, "ranges": ranges}


def _write_run(
    directory: Path, runs: Sequence[Sequence[Path]], care: Care
) -> dict[str, tuple[int, int]]:
    """Write the rows of ``runs`` in their order to pieces; where each begins and ends."""
    ranges: dict[str, tuple[int, int]] = {}
    writer, size = None, _SPILL_BYTES
    try:
        for block in merged([chain.from_iterable(map(batches, run)) for run in runs], ["position"]):
            care.announce("")
            if size >= _SPILL_BYTES:
                if writer is not None:
                    writer.close()
                name, size = f"{len(ranges):05d}.parquet", 0
                writer = pq.ParquetWriter(directory / name, SPILL, **_FORMAT)
                ranges[name] = (block["position"][0].as_py(), 0)
            assert writer is not None
            writer.write_table(block)
            size += block.nbytes
            ranges[name] = (ranges[name][0], block["position"][-1].as_py())
    finally:
        if writer is not None:
            writer.close()
    return ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUnit(PiecesStep):
    """Reads a unit and writes its documents in sorted pieces."""

    unit: Unit

    @property
    def is_movable(self) -> bool:
        """The unit is a file or a directory of this machine."""
        return False

    @property
    def title(self) -> str:
        """The unit's label."""
        return self.unit.label

    def do(self, care: Care) -> dict[str, Any]:
        """Read the unit."""
        flow, label = Flow(), self.unit.label
        make_directory(self.out.parent)
        with atomic_path(self.out) as temporary:
            temporary.mkdir()
            pieces = _Pieces(temporary)
            with TableWriter(temporary / SKIPPED_FILE, SKIPPED) as skipped:
                for number, found in enumerate(_read(self.unit, care.given_up)):
                    if number % _ANNOUNCE_EVERY == 0:
                        care.announce(label if care.careful else "", _SECONDS)
                    if isinstance(found, Skip):
                        flow.skipped[found.reason] += 1
                        skipped.write(
                            {"source": label, "path": found.path}
                            | {"reason": found.reason, "note": found.note}
                        )
                    else:
                        pieces.add(found)
            pieces.flush()
        return {
            "flow": flow.json(),
            "bytes": pieces.bytes,
            "files": {path.name: sha256(path) for path in sorted(self.out.iterdir())},
        }


class _Pieces:
    """Documents in files of at most ``_SPILL_BYTES``, each in the order of a corpus."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._documents: list[tuple[int, Document]] = []
        self._size = self._written = 0
        self.bytes = 0

    def add(self, document: Document) -> None:
        self._documents.append((position(document.id), document))
        self._size += document.bytes
        self.bytes += document.bytes
        if self._size >= _SPILL_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._documents:
            return
        path = self._directory / f"{self._written:05d}.parquet"
        self._documents.sort(key=lambda found: (found[0], found[1].id))
        with TableWriter(path, SPILL, group_bytes=_GROUP_BYTES, parquet=_FORMAT) as table:
            for place, document in self._documents:
                table.write(document.row() | {"position": place}, size=len(document.text))
        self._documents, self._size = [], 0
        self._written += 1


def _read(unit: Unit, given_up: Mapping[str, str]) -> Iterator[Document | Skip]:
    path, label = Path(unit.path), unit.label
    if label in given_up:  # reading it cost two workers
        yield Skip(f"source_{given_up[label]}", "", "reading it did not finish")
    elif unit.kind == SourceKind.ROWS:
        yield from row_documents(path, label, unit.facts, unit.columns)
    elif unit.kind == SourceKind.HUB:
        yield from hub_documents(unit.path, unit.files[0], label, unit.facts, unit.columns)
    elif unit.kind == SourceKind.PAGES:
        yield from page_documents(path, label, unit.facts)
    elif unit.kind == SourceKind.GIT:
        try:
            facts = {**repository_facts(path), **unit.facts}
            yield from _documents(repository_files(path, unit.version), facts, label)
        except DataError as error:
            yield Skip("repository_damaged", "", printable(str(error).rpartition(f"{path}: ")[2]))
    elif unit.kind == SourceKind.ARCHIVE:
        top, facts = distribution_facts(path, label)
        yield from _documents(archive_files(path, top), {**facts, **unit.facts}, label)
    else:
        yield from _documents(directory_files(path, unit.files), unit.facts, label)


def _documents(
    files: Iterator[RawFile | Skip], facts: Mapping[str, Any], label: str
) -> Iterator[Document | Skip]:
    for file in files:
        yield file if isinstance(file, Skip) else document_of(file, facts, label)
