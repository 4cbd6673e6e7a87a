"""Rows of a parquet file by their place, without the rest of it."""

import threading
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError

_BATCH = 8192
_KEPT = 2
"""Batches that are kept: neighbouring problems are asked for one after the other."""


class RowFile:
    """A parquet file that stays open: what was counted in it stays true when it is replaced.

    Threads take turns.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        try:
            self._file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"cannot read {path}: {error}") from error
        metadata = self._file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._starts = [0, *accumulate(sizes)]
        self._batches: dict[int, pa.RecordBatch] = {}

    def rows(self, first: int, count: int) -> list[Mapping[str, Any]]:
        """``count`` rows from ``first`` on.

        Raises:
            DataError: the file is damaged.
        """
        found: list[Mapping[str, Any]] = []
        with self._lock:
            while len(found) < count:
                place = first + len(found)
                start, batch = self._batch(place)
                at = place - start
                found += batch.slice(at, count - len(found)).to_pylist()
        return found

    def _batch(self, place: int) -> tuple[int, pa.RecordBatch]:
        for start, batch in self._batches.items():
            if start <= place < start + batch.num_rows:
                return start, batch
        group = bisect_right(self._starts, place) - 1
        if group >= len(self._starts) - 1:
            raise DataError(f"{self._path} has no row {place}")
        start = self._starts[group]
        try:
            for batch in self._file.iter_batches(_BATCH, row_groups=[group]):
                if place < start + batch.num_rows:
                    break
                start += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self._path} is damaged: {error}") from error
        if len(self._batches) >= _KEPT:
            self._batches.pop(next(iter(self._batches)))
        self._batches[start] = batch
        return start, batch
