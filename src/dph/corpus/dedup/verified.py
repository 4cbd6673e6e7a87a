"""Near-copies by their exact similarity: who is dropped for a kept file that is like it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dph.corpus.dedup.shingles import jaccard
from dph.corpus.dedup.signatures import BAND_BYTES


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
