"""What is known of each document of a corpus while copies are looked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dph.corpus.tables import read_table

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
