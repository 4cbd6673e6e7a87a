"""Work for ``dedup``: signatures of a shard, a closer look at groups, the cut itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dph._base.files import atomic_file, make_directory, sha256
from dph._processes.workers.handler import Handler, TellStage
from dph.corpus.dedup.decisions import MARKS, NEAR
from dph.corpus.dedup.presets import Nearness
from dph.corpus.dedup.signatures import BAND_BYTES, band_digests, jaccard, shingle_set
from dph.corpus.documents import Document, position
from dph.corpus.shard_work import write_shard
from dph.corpus.stage import DocumentOutcome, Drop
from dph.corpus.tables import TableWriter, read_documents, read_table
from dph.errors import DataError

# Near-copies by their exact similarity: who is dropped for a kept file that is like it.


@dataclass(frozen=True, slots=True)
class Member:
    """A document of a group of candidates."""

    id: str
    rank: int
    bands: bytes

    def buckets(self) -> Iterator[tuple[int, bytes]]:
        """Its bands with their numbers."""
        for start in range(0, len(self.bands), BAND_BYTES):
            yield start, self.bands[start : start + BAND_BYTES]


@dataclass(frozen=True, slots=True)
class NearCopy:
    """``id`` is dropped for ``kept_id``; ``similarity`` is their exact Jaccard similarity."""

    id: str
    kept_id: str
    similarity: float


def near_copies(
    group: Sequence[Member],
    shingles: Callable[[str], NDArray[np.uint64]],
    least_jaccard: float,
) -> list[NearCopy]:
    """The members to drop: those like a kept member that shares a band with them.

    The best come first and are kept unless one before them is like them; nobody is dropped for a
    file that is dropped itself. Of several kept files the most similar counts, then the best.

    Args:
        group: documents that hang together by equal bands.
        shingles: the ``shingle_set`` of an id.
        least_jaccard: from which similarity on they are alike.
    """
    kept: dict[tuple[int, bytes], list[Member]] = {}
    found = []
    for member in sorted(group, key=lambda member: member.rank):
        rivals = {r.rank: r for bucket in member.buckets() for r in kept.get(bucket, ())}
        mine = shingles(member.id) if rivals else None
        alike = [
            (-similarity, rank, rival.id)
            for rank, rival in rivals.items()
            if mine is not None
            and (similarity := jaccard(mine, shingles(rival.id))) >= least_jaccard
        ]
        if alike:
            similarity, _, kept_id = min(alike)
            found.append(NearCopy(member.id, kept_id, -similarity))
            continue
        for bucket in member.buckets():
            kept.setdefault(bucket, []).append(member)
    return found


MEMBERS = pa.schema(
    [("group", pa.int64()), ("id", pa.string()), ("rank", pa.int64()), ("bands", pa.binary())]
)
"""Documents to be looked at more closely."""
COPIES = pa.schema(
    [(name, pa.string()) for name in ("id", "reason", "kept_id")] + [("value", pa.float64())]
)
"""Documents to be dropped, and for which one."""

_TOGETHER, _TOGETHER_BYTES = 64, 1_000_000


def make_handler(options: Mapping[str, Any]) -> Handler:
    """The handler of a worker; a request names its ``step``."""
    nearness = Nearness(**options["nearness"])

    def handle(request: Any, announce: TellStage) -> Any:
        announce("")
        match request["step"]:
            case "signatures":
                shard, out = Path(request["input"]), Path(request["out"])
                return mark_shard(nearness, shard, out, lambda: announce(""))
            case "look":
                shards = [Path(path) for path in request["shards"]]
                members, out = Path(request["members"]), Path(request["out"])
                return look_closer(nearness, members, shards, out)
            case "cut":
                return cut_shard(request)
            case step:
                raise DataError(f"there is no step {step!r}")

    return handle


def mark_shard(
    nearness: Nearness, shard: Path, out: Path, announce: Callable[[], object]
) -> dict[str, Any]:
    """Write what is known of the documents of a shard; ``announce`` is called now and then."""
    make_directory(out.parent)
    with atomic_file(out) as temporary, TableWriter(temporary, MARKS) as table:
        for batch in _batches(read_documents(shard)):
            announce()
            found = band_digests([document.text for document in batch], nearness)
            for document, bands in zip(batch, found, strict=True):
                table.write(
                    {"id": document.id, "stars": document.stars, "bytes": document.bytes}
                    | {"commit_time": document.commit_time, "sha256": document.sha256}
                    | {"bands": bands}
                )
    return {"files": {"marks": sha256(out)}}


def look_closer(
    nearness: Nearness, members: Path, shards: Sequence[Path], out: Path
) -> dict[str, Any]:
    """Write the near-copies among groups of candidates, whose texts lie in ``shards``."""
    assert nearness.least_jaccard is not None
    groups: dict[int, list[Member]] = {}
    for row in read_table(members):
        member = Member(row["id"], row["rank"], row["bands"])
        groups.setdefault(row["group"], []).append(member)
    wanted = {member.id for group in groups.values() for member in group}
    sets: dict[str, NDArray[np.uint64]] = {}
    for shard in shards:
        for row in read_table(shard, ("id", "text")):
            if row["id"] in wanted:
                sets[row["id"]] = shingle_set(row["text"])
    with atomic_file(out) as temporary, TableWriter(temporary, COPIES) as table:
        for group in groups.values():
            for copy in near_copies(group, sets.__getitem__, nearness.least_jaccard):
                table.write(
                    {"id": copy.id, "reason": NEAR, "kept_id": copy.kept_id}
                    | {"value": copy.similarity}
                )
    return {"files": {"copies": sha256(out)}}


def cut_shard(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write the documents at positions in [low, high) that stay, and those that do not."""
    low, high = int(request["low"]), int(request["high"])
    copies = {row["id"]: row for row in read_table(Path(request["copies"]))}
    documents = (
        document
        for path in request["inputs"]
        for document in read_documents(Path(path))
        if low <= position(document.id) < high
    )
    outcomes = ((document, _outcome(document, copies)) for document in documents)
    return write_shard(outcomes, "dedup", Path(request["out"]), request["name"])


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
