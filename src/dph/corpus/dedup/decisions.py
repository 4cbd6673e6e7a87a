"""Decisions of who is dropped, and for whom: copies first, then near-copies among the rest."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dph.corpus.dedup.presets import Nearness
from dph.corpus.dedup.signatures import BAND_BYTES
from dph.corpus.tables import read_table

# What is known of each document of a corpus while copies are looked for.

MARKS = pa.schema(
    [
        ("id", pa.string()),
        *((name, pa.int64()) for name in ("stars", "commit_time", "bytes")),
        ("sha256", pa.string()),
        ("bands", pa.binary()),
    ]
)
"""The columns of a shard's marks."""


@dataclass(frozen=True)
class Marks:
    """A row for each document, in the order of the corpus.

    Args:
        ids: unique.
        stars: of its repository.
        commit_times: seconds since 1970.
        digests: SHA-256 of the text, in hex.
        sizes: bytes.
        bands: ``band_digests``.
    """

    ids: Sequence[str]
    stars: NDArray[np.int64]
    commit_times: NDArray[np.int64]
    digests: NDArray[np.bytes_]
    sizes: NDArray[np.int64]
    bands: Sequence[bytes]

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """Each document's place in the order of preference, 0 the best.

        Most stars, then the latest commit, then the smallest id.
        """
        by_id = np.empty(len(self.ids), dtype=np.int64)
        by_id[sorted(range(len(self.ids)), key=self.ids.__getitem__)] = np.arange(len(self.ids))
        ranks = np.empty(len(self.ids), dtype=np.int64)
        ranks[np.lexsort((by_id, -self.commit_times, -self.stars))] = np.arange(len(self.ids))
        return ranks

    def member(self, index: int) -> dict[str, Any]:
        """A document as a member of a group of candidates."""
        return {"id": self.ids[index], "rank": int(self.ranks[index]), "bands": self.bands[index]}


def read_marks(paths: Sequence[Path]) -> Marks:
    """The marks of all shards, in their order."""
    rows = [row for path in paths for row in read_table(path, tuple(MARKS.names))]
    numbers = {
        name: np.array([row[name] for row in rows], dtype=np.int64)
        for name in ("stars", "commit_time", "bytes")
    }
    return Marks(
        ids=[row["id"] for row in rows],
        stars=numbers["stars"],
        commit_times=numbers["commit_time"],
        digests=np.array([row["sha256"] for row in rows], dtype="S64"),
        sizes=numbers["bytes"],
        bands=[row["bands"] for row in rows],
    )


# Who may be a copy of whom: documents by their bands, and the groups that these make.


def keepers_of_copies(marks: Marks) -> NDArray[np.int64]:
    """For each document the best one with the same bytes; itself where there is no better one."""
    order = np.lexsort((marks.ranks, marks.digests))
    digests = marks.digests[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = digests[1:] != digests[:-1]
    keepers = np.empty(len(order), dtype=np.int64)
    keepers[order] = order[np.flatnonzero(first)][np.cumsum(first) - 1]
    return keepers


def components(bands: Sequence[bytes], members: NDArray[np.int64]) -> list[list[int]]:
    """Groups of two or more of the ``members`` that hang together by equal bands.

    Groups and their members are ascending.
    """
    present = [int(member) for member in members if bands[member]]
    parents = list(range(len(present)))
    if not present:
        return []
    table = np.frombuffer(b"".join(bands[m] for m in present), dtype=f"<u{BAND_BYTES}")
    table = table.reshape(len(present), -1)
    for column in table.T:
        order = np.argsort(column, kind="stable")
        same = np.flatnonzero(column[order][1:] == column[order][:-1])
        for place in same.tolist():
            _join(parents, int(order[place]), int(order[place + 1]))
    groups: dict[int, list[int]] = {}
    for index, member in enumerate(present):
        groups.setdefault(_root(parents, index), []).append(member)
    return [group for group in groups.values() if len(group) > 1]


def _join(parents: list[int], one: int, other: int) -> None:
    first, second = sorted((_root(parents, one), _root(parents, other)))
    parents[second] = first


def _root(parents: list[int], index: int) -> int:
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = parents[index]
    return index


EXACT, NEAR = "exact", "near"
"""The reasons for dropping a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """``id`` is dropped for ``kept_id``, which is kept; ``value`` is a known Jaccard similarity."""

    id: str
    reason: str
    kept_id: str
    value: float | None = None

    def row(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


LookCloser = Callable[[Sequence[Sequence[int]], Marks], Sequence[Copy]]
"""Given groups of candidates, says which are near-copies of a kept one."""


def copies_of(marks: Marks, nearness: Nearness, look_closer: LookCloser) -> list[Copy]:
    """Every document to be dropped."""
    keepers = keepers_of_copies(marks)
    alone = np.flatnonzero(keepers == np.arange(len(keepers)))
    groups = components(marks.bands, alone) if nearness.bands else []
    if nearness.least_jaccard is None:
        near = [copy for group in groups for copy in _best_stays(group, marks)]
    else:
        near = [*look_closer(groups, marks)]
    kept_for = {copy.id: copy.kept_id for copy in near}
    exact = []
    for index in np.flatnonzero(keepers != np.arange(len(keepers))).tolist():
        keeper = marks.ids[int(keepers[index])]
        kept_id = kept_for.get(keeper, keeper)
        exact.append(Copy(id=marks.ids[index], reason=EXACT, kept_id=kept_id, value=None))
    return [*exact, *near]


def _best_stays(group: Sequence[int], marks: Marks) -> list[Copy]:
    best = min(group, key=lambda index: int(marks.ranks[index]))
    return [
        Copy(id=marks.ids[index], reason=NEAR, kept_id=marks.ids[best])
        for index in group
        if index != best
    ]
