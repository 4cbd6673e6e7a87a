"""A corpus on disk: shards of documents and the manifest that says what they are.

A directory of a stage holds

* ``kept/part-00000-of-00004.parquet``: the documents that stayed, which the next stage reads,
* ``dropped/part-00000-of-00004.parquet``: the others' ids, and why,
* ``<table>.parquet``: tables of the stage's own,
* ``manifest.json``: what it was made from, written last. A directory without it is unfinished.
"""

from collections.abc import Sequence
from pathlib import Path
import pyarrow as pa
from dph._base.files import atomic_file
from dph.corpus.tables import TableWriter, read_table
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
import pyarrow as pa
from dph._base.files import read_json
from dph.corpus.documents import Document, position
from dph.corpus.flow import Flow
from dph.corpus.tables import read_documents
from dph.errors import DataError


# The parts of a table put together as one file.

def join_parts(parts: Sequence[Path], target: Path, schema: pa.Schema) -> None:
    """Write the rows of ``parts``, in that order, to ``target``.

    Row groups are cut anew, so the bytes do not depend on how the rows were cut into parts.

    Raises:
        DataError: a part cannot be read.
    """
    with atomic_file(target) as temporary, TableWriter(temporary, schema) as table:
        for part in parts:
            for row in read_table(part):
                table.write(row)


MANIFEST = "manifest.json"
SCHEMA = 1
"""Of the manifest; counts up when its form changes."""
MOST_SHARDS = 10_000
_SHARD_BYTES = 128_000_000
KEPT, DROPPED = "kept", "dropped"

DROPS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "stage", "reason")),
        ("value", pa.float64()),
        *((name, pa.string()) for name in ("threshold", "kept_id", "note")),
        ("reasons", pa.list_(pa.string())),
        *((name, pa.string()) for name in ("path", "source", "language", "doc_type")),
        ("bytes", pa.int64()),
    ]
)
"""The columns of ``dropped``: a row for each document, by its deciding reason; ``reasons`` has all
of them."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a corpus: its file's name, what it holds, and the SHA-256 of the file."""

    name: str
    documents: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a stage made. Holds nothing that differs when the same is made again elsewhere.

    ``content`` is a digest of the documents that does not depend on how they were cut into
    shards. ``history`` names the stages that led here, each with its settings, oldest first.
    """

    stage: str
    shards: Sequence[Shard]
    content: str
    history: Sequence[Mapping[str, Any]]
    flow: Flow

    @property
    def documents(self) -> int:
        """How many documents were kept."""
        return sum(shard.documents for shard in self.shards)

    @property
    def bytes(self) -> int:
        """The size of their texts."""
        return sum(shard.bytes for shard in self.shards)

    def json(self) -> dict[str, Any]:
        """The manifest as it is written."""
        return {
            "schema": SCHEMA,
            "stage": self.stage,
            "documents": self.documents,
            "bytes": self.bytes,
            "content": self.content,
            "history": [dict(step) for step in self.history],
            "shards": [
                {"name": s.name, "documents": s.documents, "bytes": s.bytes, "sha256": s.sha256}
                for s in self.shards
            ],
            "flow": self.flow.json(),
        }


@dataclass(frozen=True, slots=True)
class Corpus:
    """A finished stage's documents, to be read."""

    directory: Path
    manifest: Manifest

    @property
    def shards(self) -> Sequence[Shard]:
        """The shards in order."""
        return self.manifest.shards

    def path(self, shard: Shard) -> Path:
        """Where a shard lies."""
        return self.directory / KEPT / shard.name

    def within(self, low: int, high: int) -> list[Shard]:
        """The shards that have documents at positions in [low, high)."""
        ranges = [position_range(index, len(self.shards)) for index in range(len(self.shards))]
        return [
            shard
            for shard, (begin, end) in zip(self.shards, ranges, strict=True)
            if begin < high and low < end
        ]

    def documents(self) -> Iterator[Document]:
        """All documents, in the order of the corpus."""
        for shard in self.shards:
            yield from read_documents(self.path(shard))

    def find(self, document_id: str) -> Document | None:
        """The document of that id, or None; one shard is read."""
        place = shard_of(document_id, len(self.shards))
        for document in read_documents(self.path(self.shards[place])):
            if document.id == document_id:
                return document
        return None


def is_corpus(path: Path) -> bool:
    """Whether ``path`` is the directory of a finished stage."""
    return (path / MANIFEST).is_file()


def open_corpus(directory: Path) -> Corpus:
    """The documents that a stage left in ``directory``.

    Raises:
        DataError: the stage has not finished, the manifest is damaged, or a shard is missing.
    """
    if not is_corpus(directory):
        raise DataError(
            f"{directory} is not a corpus: it has no {MANIFEST}, which a stage writes last; "
            "make one with `dph corpus ingest`, or let the stage that makes it finish"
        )
    corpus = Corpus(directory, _manifest(directory / MANIFEST))
    if missing := [s.name for s in corpus.shards if not corpus.path(s).is_file()]:
        raise DataError(f"{directory} lacks {len(missing)} of its shards, first {missing[0]}")
    return corpus


def shard_name(index: int, shards: int) -> str:
    """The file name of shard ``index`` of ``shards``."""
    return f"part-{index:05d}-of-{shards:05d}.parquet"


def shard_of(document_id: str, shards: int) -> int:
    """Which of ``shards`` a document belongs to: each holds an equal range of positions."""
    return position(document_id) * shards >> 64


def position_range(index: int, shards: int) -> tuple[int, int]:
    """The positions of shard ``index`` of ``shards``: from the first on, below the second.

    >>> position_range(1, 4) == (2**62, 2**63)
    True
    """
    low, high = (-(-(bound << 64) // shards) for bound in (index, index + 1))
    return low, high


def shards_for(size: int) -> int:
    """How many shards documents of ``size`` bytes make by default."""
    return min(MOST_SHARDS, max(1, -(-size // _SHARD_BYTES)))


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value, whatever the order of its keys.

    Bytes of file names that are not UTF-8 (lone surrogates in Python) count as well.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _manifest(path: Path) -> Manifest:
    content = read_json(path)
    try:
        if content["schema"] != SCHEMA:
            raise DataError(f"{path} has schema {content['schema']}; this version reads {SCHEMA}")
        return Manifest(
            stage=content["stage"],
            shards=[Shard(**shard) for shard in content["shards"]],
            content=content["content"],
            history=content["history"],
            flow=Flow.of(content["flow"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not the manifest of a corpus: {error!r}") from error
