"""A corpus on disk: shards of documents and the manifest that says what they are.

A directory of a stage holds

* ``kept/part-00000-of-00004.parquet``: the documents that stayed, which the next stage reads,
* ``dropped/part-00000-of-00004.parquet``: the others' ids, and why,
* ``<table>.parquet``: tables of the stage's own,
* ``manifest.json``: what it was made from, written last. A directory without it is unfinished.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from dph._base.files import atomic_file, read_json
from dph.errors import DataError
from dph_corpus import remote
from dph_corpus.documents import Document, position
from dph_corpus.stage import DocumentOutcome
from dph_corpus.tables import TableWriter, read_documents, read_table, schema_of

# What went into a stage and what came out: by kind of document, by reason, by the stage's counts.
#
# Flows of shards add up, in any order, to the flow of the stage.

_EXAMPLES = 5
MOST_COUNTED = 40
"""Counts of a stage that its manifest names one by one."""


@dataclass(slots=True)
class Passage:
    """Documents and bytes that came in, and that were kept."""

    documents: int = 0
    bytes: int = 0
    kept_documents: int = 0
    kept_bytes: int = 0

    def add(self, other: "Passage") -> None:
        """Add another passage to this one."""
        self.documents += other.documents
        self.bytes += other.bytes
        self.kept_documents += other.kept_documents
        self.kept_bytes += other.kept_bytes


@dataclass(slots=True)
class Reason:
    """Effect of a reason: hits, hits of no other reason, bytes, and some ids.

    The examples are the first in the order of a corpus, so they are drawn alike everywhere.
    """

    documents: int = 0
    solo: int = 0
    bytes: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, other: "Reason") -> None:
        """Add what the same reason dropped elsewhere."""
        self.documents += other.documents
        self.solo += other.solo
        self.bytes += other.bytes
        self.examples = sorted({*self.examples, *other.examples}, key=_place)[:_EXAMPLES]


@dataclass(slots=True)
class Flow:
    """The flow of a shard or of a stage.

    ``passages`` are by (doc type, language); ``skipped`` counts what never became a document.
    """

    passages: defaultdict[tuple[str, str], Passage] = field(
        default_factory=lambda: defaultdict(Passage)
    )
    reasons: defaultdict[str, Reason] = field(default_factory=lambda: defaultdict(Reason))
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def record(self, document: Document, outcome: DocumentOutcome) -> None:
        """Count what became of ``document``."""
        size = 0 if outcome.document is None else outcome.document.bytes
        kept = int(outcome.document is not None)
        self.passages[document.doc_type, document.language].add(
            Passage(1, document.bytes, kept, size)
        )
        reasons = {drop.reason for drop in outcome.drops}
        for reason in reasons:
            hit = Reason(1, int(len(reasons) == 1), document.bytes, [document.id])
            self.reasons[reason].add(hit)
        self.counts.update(outcome.counts)

    def add(self, other: "Flow") -> None:
        """Add the flow of another shard."""
        for kind, passage in other.passages.items():
            self.passages[kind].add(passage)
        for name, reason in other.reasons.items():
            self.reasons[name].add(reason)
        self.counts.update(other.counts)
        self.skipped.update(other.skipped)

    def bounded(self) -> "Flow":
        """The same with the largest counts alone, and how many others there were and their sum.

        A stage may count by what it finds in documents, which has no end.
        """
        if len(self.counts) <= MOST_COUNTED:
            return self
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        kept, others = ranked[:MOST_COUNTED], ranked[MOST_COUNTED:]
        rest = {f"({len(others)} others)": sum(count for _, count in others)}
        return replace(self, counts=Counter(dict(kept) | rest))

    def total(self) -> Passage:
        """All passages together."""
        total = Passage()
        for passage in self.passages.values():
            total.add(passage)
        return total

    def json(self) -> dict[str, Any]:
        """The flow as JSON, in a fixed order."""
        return {
            "passages": [
                {"doc_type": str(doc_type), "language": language, **asdict(passage)}
                for (doc_type, language), passage in sorted(self.passages.items())
            ],
            "reasons": {name: asdict(reason) for name, reason in sorted(self.reasons.items())},
            "counts": dict(sorted(self.counts.items())),
            "skipped": dict(sorted(self.skipped.items())),
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """The flow that ``json`` wrote."""
        flow = cls()
        for row in content["passages"]:
            values = {k: v for k, v in row.items() if k not in ("doc_type", "language")}
            flow.passages[row["doc_type"], row["language"]] = Passage(**values)
        for name, reason in content["reasons"].items():
            flow.reasons[name] = Reason(**reason)
        flow.counts.update(content["counts"])
        flow.skipped.update(content["skipped"])
        return flow


def _place(document_id: str) -> tuple[int, str]:
    return position(document_id), document_id


# The parts of a table put together as one file.


def join_parts(parts: Iterable[Path], target: Path, schema: pa.Schema) -> None:
    """Write the rows of ``parts``, in that order, to ``target``.

    Row groups are cut anew, so the bytes do not depend on how the rows were cut into parts.
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

DROPS = schema_of("drops")
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
class CorpusManifest:
    """Result of a stage. It has nothing that differs when the same is made again elsewhere.

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
        """Number of documents kept."""
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
            "shards": [asdict(shard) for shard in self.shards],
            "flow": self.flow.json(),
        }


@dataclass(frozen=True, slots=True)
class Corpus:
    """A finished stage's documents, to be read."""

    directory: Path
    manifest: CorpusManifest

    @property
    def shards(self) -> Sequence[Shard]:
        """The shards in order."""
        return self.manifest.shards

    def path(self, shard: Shard) -> Path:
        """Path of a shard."""
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
            yield from read_documents(remote.fetched(self.path(shard)))

    def find(self, document_id: str) -> Document | None:
        """The document of that id, or None; one shard is read."""
        place = shard_of(document_id, len(self.shards))
        for document in read_documents(remote.fetched(self.path(self.shards[place]))):
            if document.id == document_id:
                return document
        return None


def is_corpus(path: Path) -> bool:
    """Whether ``path`` is the directory of a finished stage."""
    return remote.is_there(path / MANIFEST)


def open_corpus(directory: Path) -> Corpus:
    """The documents that a stage left in ``directory``.

    Raises:
        DataError: the stage has not finished, the manifest is damaged, or a shard is missing.
    """
    if not is_corpus(directory):
        raise DataError(
            f"{remote.shown(directory)} is not a corpus: it has no {MANIFEST}, which is written "
            "last; make one with `dph-corpus ingest`, or run its stage to the end"
        )
    corpus = Corpus(directory, _manifest(remote.fetched(directory / MANIFEST)))
    found = remote.names(directory / KEPT)
    if missing := [shard.name for shard in corpus.shards if shard.name not in found]:
        raise DataError(
            f"{remote.shown(directory)} lacks {len(missing)} of its shards, first {missing[0]}"
        )
    return corpus


def shard_name(index: int, shards: int) -> str:
    """The file name of shard ``index`` of ``shards``."""
    return f"part-{index:05d}-of-{shards:05d}.parquet"


def shard_of(document_id: str, shards: int) -> int:
    """Shard of a document, out of ``shards``: each holds an equal range of positions."""
    return position(document_id) * shards >> 64


def position_range(index: int, shards: int) -> tuple[int, int]:
    """The positions of shard ``index`` of ``shards``: from the first on, below the second.

    >>> position_range(1, 4) == (2**62, 2**63)
    True
    """
    low, high = (-(-(bound << 64) // shards) for bound in (index, index + 1))
    return low, high


def shards_for(size: int) -> int:
    """Default number of shards of documents of ``size`` bytes."""
    return min(MOST_SHARDS, max(1, -(-size // _SHARD_BYTES)))


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value, whatever the order of its keys.

    Bytes of file names that are not UTF-8 (lone surrogates in Python) count as well.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _manifest(path: Path) -> CorpusManifest:
    content = read_json(path)
    try:
        if content["schema"] != SCHEMA:
            raise DataError(f"{path} has schema {content['schema']}; this version reads {SCHEMA}")
        return CorpusManifest(
            stage=content["stage"],
            shards=[Shard(**shard) for shard in content["shards"]],
            content=content["content"],
            history=content["history"],
            flow=Flow.of(content["flow"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not the manifest of a corpus: {error!r}") from error
