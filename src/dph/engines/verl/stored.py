"""The stored answers of a pool, read as they are needed."""

from collections.abc import Sequence
from pathlib import Path
from typing import overload

import pyarrow as pa
import pyarrow.parquet as pq

from dph.runs.presample.manifest import Manifest, read_manifest
from dph.runs.presample.pool import RehearsalSample, require_whole
from dph.runs.presample.tables import REHEARSAL, rehearsal_sample


class StoredAnswers(Sequence[RehearsalSample]):
    """``rehearsal.parquet`` as a sequence: numbers in columns, a sample only while it is used.

    100,000 answers of 500 tokens take 0.4 GB, whatever the number of epochs.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table.combine_chunks()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> RehearsalSample: ...

    @overload
    def __getitem__(self, index: slice) -> list[RehearsalSample]: ...

    def __getitem__(self, index: int | slice) -> RehearsalSample | list[RehearsalSample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"there are {len(self)} stored answers, got index {index}")
        (row,) = self._table.slice(index % len(self), 1).to_pylist()
        return rehearsal_sample(row)


def open_stored(path: Path) -> tuple[Manifest, StoredAnswers]:
    """The manifest of the pool in ``path`` and its stored answers, after comparing every hash.

    Raises:
        PoolError: there is no pool, or a file is not the one that was written.
    """
    manifest = read_manifest(path / "manifest.json")
    require_whole(path, manifest)
    return manifest, StoredAnswers(pq.read_table(path / "rehearsal.parquet", schema=REHEARSAL))
