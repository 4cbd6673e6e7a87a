"""Columns sorted on disk: more rows than memory holds, as runs that are merged.

Rows are gathered, sorted and written as a run whenever there are enough of them. Runs are read
again in batches side by side. Rows below the smallest last key of all batches are complete and can
go on; so equal keys are always in one block.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph._base.closing import Ending
from dph._base.files import make_directory

RUN_BYTES = 8_000_000
"""Of a run, which is sorted in memory."""
_BATCH_BYTES = 300_000
"""Of a run that is in memory while runs are merged."""
_TOGETHER = 32
"""Runs that are merged at a time; more of them are merged in turns."""


class SortedColumns:
    """Rows in the order of ``keys``, and of their arrival where keys are equal."""

    def __init__(self, directory: Path, keys: Sequence[str], *, run_bytes: int = RUN_BYTES) -> None:
        self._directory, self._keys = directory, keys
        self._run_bytes = run_bytes
        self._waiting: list[pa.Table] = []
        self._size = 0
        self._runs: list[Path] = []

    def add(self, table: pa.Table) -> None:
        """Take rows in."""
        self._waiting.append(table)
        self._size += table.nbytes
        if self._size >= self._run_bytes:
            self._flush()

    def blocks(self) -> Iterator[pa.Table]:
        """All rows in order; rows with one first key are in one block. Runs go as they are read."""
        self._flush()
        yield from merged_files(self._runs, self._keys, self._directory)
        for path in self._runs:
            path.unlink(missing_ok=True)
        self._runs = []

    def _flush(self) -> None:
        if not any(map(len, self._waiting)):
            return
        path = make_directory(self._directory) / f"{len(self._runs):05d}.parquet"
        table = in_order(pa.concat_tables(self._waiting), self._keys)
        with BatchWriter(path, table.schema) as writer:
            writer.add(table)
        self._runs.append(path)
        self._waiting, self._size = [], 0
        del table
        pa.default_memory_pool().release_unused()


class BatchWriter(Ending):
    """A file of rows that ``batches`` reads, gathered into row groups of about ``_BATCH_BYTES``.

    What is known of a row group stays in memory until the file is closed, so there must be few.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(
            path, schema, compression="none", use_dictionary=False, write_statistics=False
        )
        self._waiting: list[pa.Table] = []
        self._size = 0

    def add(self, table: pa.Table) -> None:
        """Write rows, in the end or now."""
        rows = max(1, _BATCH_BYTES * len(table) // max(1, table.nbytes))
        for start in range(0, len(table), rows):
            part = table.slice(start, rows)
            self._waiting.append(part)
            self._size += part.nbytes
            if self._size >= _BATCH_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
            self._waiting, self._size = [], 0

    def leave(self, *, well: bool) -> None:
        """Write what waits, unless the block failed, and close."""
        if well:
            self._flush()
        self._writer.close()


def batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The rows of a file, a row group at a time."""
    with pq.ParquetFile(path) as file:
        for group in range(file.metadata.num_row_groups):
            if len(
                table := file.read_row_group(
                    group, columns=columns and list(columns), use_threads=False
                )
            ):
                yield table


def in_order(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows in the order of ``keys``; equal ones stay in theirs."""
    table = table.combine_chunks()
    if all(pa.types.is_integer(table.schema.field(key).type) for key in keys):
        order = np.lexsort([table[key].to_numpy() for key in reversed(keys)])
        return table.take(pa.array(order))
    return table.take(pc.sort_indices(table, sort_keys=[(key, "ascending") for key in keys]))


def merged(runs: Sequence[Iterator[pa.Table]], keys: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of sorted ``runs`` in the order of ``keys``, as ``SortedColumns.blocks``."""
    key = keys[0]
    heads = [head for run in runs if (head := _Head(run, key)).read()]
    while heads:
        bounds = [head.last for head in heads if head.more]
        if not bounds:
            yield in_order(pa.concat_tables([head.rows for head in heads]), keys)
            return
        bound = min(bounds)
        ready = [part for head in heads if len(part := head.below(bound))]
        if ready:
            yield in_order(pa.concat_tables(ready), keys)
        for head in heads:
            if head.more and head.last == bound:
                head.read()
        heads = [head for head in heads if head.more or len(head.rows)]


def merged_files(paths: Sequence[Path], keys: Sequence[str], directory: Path) -> Iterator[pa.Table]:
    """The rows of sorted files, of which few are open at a time; ``directory`` is for others."""
    turn = 0
    while len(paths) > _TOGETHER:
        fewer = []
        for start in range(0, len(paths), _TOGETHER):
            group = paths[start : start + _TOGETHER]
            fewer.append(make_directory(directory) / f"merged-{turn}-{start:07d}.parquet")
            with BatchWriter(fewer[-1], pq.read_schema(group[0])) as writer:
                for block in merged([batches(path) for path in group], keys):
                    writer.add(block)
            if turn:
                for path in group:
                    path.unlink()
        paths, turn = fewer, turn + 1
    yield from merged([batches(path) for path in paths], keys)
    if turn:
        for path in paths:
            path.unlink()


class _Head:
    """The rows of a run that have been read and not passed on."""

    def __init__(self, run: Iterator[pa.Table], key: str) -> None:
        self._run, self._key = run, key
        self.rows: Any = None
        self.more = True
        self.last: int | bytes = 0

    def read(self) -> bool:
        """Read the next batch; False if the run is empty."""
        batch = next(self._run, None)
        if batch is None:
            self.more = False
            return self.rows is not None
        left = [] if self.rows is None else [self.rows]
        self.rows = pa.concat_tables([*left, batch]).combine_chunks()
        self.last = self.rows[self._key][-1].as_py()
        return True

    def below(self, bound: int | bytes) -> pa.Table:
        """Take the rows with a smaller key."""
        column = self.rows[self._key]
        if isinstance(bound, int):
            numbers = column.to_numpy()
            place = int(np.searchsorted(numbers, numbers.dtype.type(bound)))
        else:
            place = bisect_left(range(len(column)), bound, key=lambda at: column[at].as_py())
        found, self.rows = self.rows.slice(0, place), self.rows.slice(place)
        return found
