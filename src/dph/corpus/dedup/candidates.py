"""Who may be a copy of whom: documents by their bands, and the groups that these make."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dph.corpus.dedup.marks import Marks
from dph.corpus.dedup.signatures import BAND_BYTES


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
