"""Work for ``dedup``: signatures of a shard, a closer look at groups, the cut itself."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dph_corpus.dedup.signatures import BAND_BYTES, band_digests, jaccard, shingle_set
from dph_corpus.documents import Document, position
from dph_corpus.settings import Nearness
from dph_corpus.shard_work import ShardStep, TableStep, write_shard
from dph_corpus.stage import DocumentOutcome, Drop
from dph_corpus.steps import Care
from dph_corpus.tables import read_documents, read_table, schema_of

# What is known of each document of a corpus while copies are looked for.

PREFERENCE_BYTES = 16
"""Of a preference, before the id."""
MARKS = schema_of("marks")
"""The columns of a shard's marks, whose rows are in the order of ``preference``."""
DIGEST_BYTES = 16
"""Of the SHA-256: two texts agree in them with a probability of 2**-128."""
_MOST = 2**63 - 1


def preference(document: Document) -> bytes:
    """The place of a document among copies, and its id: the smallest of a group is kept.

    Most stars, then the latest commit, then the smallest id.
    """
    place = struct.pack(">QQ", _MOST - document.stars, _MOST - document.commit_time)
    return place + document.id.encode()


# Near-copies by their exact similarity: who is dropped for a kept file that is like it.

NEAR = "near"
"""The reason for dropping a document that is like a better one."""


class Copy(NamedTuple):
    """The document ``number`` is dropped for ``kept``, whose Jaccard similarity is ``value``."""

    number: int
    kept: int
    value: float


@dataclass(frozen=True, slots=True)
class Member:
    """A document of a group of candidates; the smaller its number, the better it is."""

    id: str
    number: int
    bands: bytes

    def buckets(self) -> Iterator[tuple[int, bytes]]:
        """Its bands with their numbers."""
        for start in range(0, len(self.bands), BAND_BYTES):
            yield start, self.bands[start : start + BAND_BYTES]


def near_copies(
    group: Sequence[Member], shingles: Callable[[str], NDArray[np.uint64]], least_jaccard: float
) -> list[Copy]:
    """The members to drop: those like a kept member that shares a band with them.

    The best come first and are kept unless one before them is like them; nobody is dropped for a
    file that is dropped itself. Of several kept files the most similar counts, then the best.
    """
    kept: dict[tuple[int, bytes], list[Member]] = {}
    found = []
    for member in sorted(group, key=lambda member: member.number):
        rivals = {r.number: r for bucket in member.buckets() for r in kept.get(bucket, ())}
        mine = shingles(member.id) if rivals else None
        alike = [
            (-similarity, number)
            for number, rival in rivals.items()
            if mine is not None
            and (similarity := jaccard(mine, shingles(rival.id))) >= least_jaccard
        ]
        if alike:
            similarity, number = min(alike)
            found.append(Copy(member.number, number, -similarity))
            continue
        for bucket in member.buckets():
            kept.setdefault(bucket, []).append(member)
    return found


MEMBERS = schema_of("members")
"""Documents to be looked at more closely."""
NEAR_COPIES = schema_of("near_copies")
"""Near-copies among them: ``Copy``."""
COPIES = schema_of("copies")
"""Documents to be dropped, and for which one; ``value`` is a known Jaccard similarity."""

_TOGETHER, _TOGETHER_BYTES = 64, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkShard(TableStep):
    """Writes what is known of the documents of a shard, the preferred ones first."""

    label = "marks"
    schema = MARKS
    nearness: Nearness
    shard: Path

    def rows(self, care: Care) -> Iterator[Mapping[str, Any]]:
        """A row for each document."""
        found: list[tuple[bytes, bytes, bytes, int]] = []
        for batch in _batches(read_documents(self.shard)):
            care.announce("")
            bands = band_digests([document.text for document in batch], self.nearness)
            for each, of_bands in zip(batch, bands, strict=True):
                digest = bytes.fromhex(each.sha256)[:DIGEST_BYTES]
                found.append((preference(each), digest, of_bands, each.bytes))
        for row in sorted(found):
            yield dict(zip(MARKS.names, row, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareMembers(TableStep):
    """Writes the near-copies among groups of candidates, whose texts lie in ``shards``."""

    label = "copies"
    schema = NEAR_COPIES
    least_jaccard: float
    members: Path
    shards: Sequence[Path]

    def rows(self, care: Care) -> Iterator[Mapping[str, Any]]:
        """Compare the members of each group by their exact similarity."""
        care.announce("")
        groups: dict[int, list[Member]] = {}
        for row in read_table(self.members):
            member = Member(row["id"], row["number"], row["bands"])
            groups.setdefault(row["group"], []).append(member)
        sets = self._shingles({member.id for group in groups.values() for member in group})
        for group in groups.values():
            for copy in near_copies(group, sets.__getitem__, self.least_jaccard):
                yield copy._asdict()

    def _shingles(self, wanted: Set[str]) -> dict[str, NDArray[np.uint64]]:
        return {
            row["id"]: shingle_set(row["text"])
            for shard in self.shards
            for row in read_table(shard, ("id", "text"))
            if row["id"] in wanted
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupShard(ShardStep):
    """Writes the documents at positions in [low, high) without ``copies``."""

    low: int
    high: int
    copies: Path
    inputs: Sequence[Path]

    def do(self, care: Care) -> dict[str, Any]:
        """Keep or drop each document."""
        care.announce("")
        copies = {row["id"]: row for row in read_table(self.copies)}
        outcomes = (
            (document, _outcome(document, copies))
            for path in self.inputs
            for document in read_documents(path)
            if self.low <= position(document.id) < self.high
        )
        return write_shard(outcomes, "dedup", self.out, self.name)


def _outcome(document: Document, copies: Mapping[str, Mapping[str, Any]]) -> DocumentOutcome:
    if (copy := copies.get(document.id)) is None:
        return DocumentOutcome(document)
    return DocumentOutcome(
        None, [Drop(copy["reason"], value=copy["value"], kept_id=copy["kept_id"])]
    )


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += document.bytes
        if len(batch) >= _TOGETHER or size >= _TOGETHER_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
