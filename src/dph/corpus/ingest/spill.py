"""What a worker reads of a unit, sorted and kept until the shards are cut."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph._base.files import atomic_path, make_directory, sha256
from dph._processes.workers.handler import Handler, Stage
from dph.corpus.documents import Document, position
from dph.corpus.flow import Flow
from dph.corpus.ingest.archives import archive_files
from dph.corpus.ingest.directories import directory_files
from dph.corpus.ingest.distribution import distribution_facts
from dph.corpus.ingest.git import repository_facts, repository_files
from dph.corpus.ingest.reading import RawFile, Skip, document_of
from dph.corpus.ingest.rows import row_documents
from dph.corpus.ingest.sources import Kind
from dph.corpus.tables import DOCUMENTS, TableWriter

SPILL = DOCUMENTS.append(pa.field("position", pa.uint64()))
"""The columns of a spill."""
SKIPPED = pa.schema([(name, pa.string()) for name in ("source", "path", "reason", "note")])
"""The columns of ``skipped``: what did not become a document."""

SKIPPED_FILE = "skipped.parquet"
_SPILL_BYTES = 128_000_000
_GROUP_BYTES = 1_000_000
"""Small, so that little is read beside the range of a shard."""
_ANNOUNCE_EVERY = 200
_SECONDS = 600.0
"""Limit for so many files of a source."""


def make_handler(_options: Mapping[str, Any]) -> Handler:
    """The handler of a worker that reads units."""

    def handle(request: Any, announce: Stage) -> Any:
        name = request["unit"]["label"] if request["careful"] else ""
        return spill_unit(request, lambda: announce(name, _SECONDS))

    return handle


def spill_unit(request: Mapping[str, Any], announce: Callable[[], object]) -> dict[str, Any]:
    """Read a unit and write its documents to the directory ``out``, in sorted pieces."""
    unit, out = request["unit"], Path(request["out"])
    flow = Flow()
    make_directory(out.parent)
    with atomic_path(out) as temporary:
        temporary.mkdir()
        pieces = _Pieces(temporary)
        with TableWriter(temporary / SKIPPED_FILE, SKIPPED) as skipped:
            for number, found in enumerate(_read(unit, request["given_up"])):
                if number % _ANNOUNCE_EVERY == 0:
                    announce()
                if isinstance(found, Skip):
                    flow.skipped[found.reason] += 1
                    skipped.write(
                        {"source": unit["label"], "path": found.path}
                        | {"reason": found.reason, "note": found.note}
                    )
                else:
                    pieces.add(found)
        pieces.flush()
    return {
        "flow": flow.json(),
        "bytes": pieces.bytes,
        "files": {path.name: sha256(path) for path in sorted(out.iterdir())},
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
        with TableWriter(path, SPILL, group_bytes=_GROUP_BYTES) as table:
            for place, document in self._documents:
                table.write(document.row() | {"position": place}, size=len(document.text))
        self._documents, self._size = [], 0
        self._written += 1


def _read(unit: Mapping[str, Any], given_up: Mapping[str, str]) -> Iterator[Document | Skip]:
    path, label = Path(unit["path"]), unit["label"]
    if label in given_up:  # reading it cost two workers
        yield Skip(f"source_{given_up[label]}", "", "reading it did not come to an end")
    elif unit["kind"] == Kind.ROWS:
        yield from row_documents(path, label, unit["facts"], unit["columns"])
    elif unit["kind"] == Kind.GIT:
        facts = repository_facts(path) | unit["facts"]
        yield from _documents(repository_files(path, unit["version"]), facts, label)
    elif unit["kind"] == Kind.ARCHIVE:
        facts = distribution_facts(path, label) | unit["facts"]
        yield from _documents(archive_files(path, label), facts, label)
    else:
        yield from _documents(directory_files(path, unit["files"]), unit["facts"], label)


def _documents(
    files: Iterator[RawFile | Skip], facts: Mapping[str, Any], label: str
) -> Iterator[Document | Skip]:
    for file in files:
        yield file if isinstance(file, Skip) else document_of(file, facts, label)
