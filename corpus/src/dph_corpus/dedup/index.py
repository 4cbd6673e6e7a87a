"""Copies among more documents than memory holds.

The marks of all shards are merged in the order of preference: a document's place in it is its
number, and the best of a group has the smallest. All else is sorted on disk, by digests, by each
band and by number (``sorting``). In memory are two numbers a document, whom an equal text and whom
an equal band ties it to: 8 bytes. Where copies are looked at more closely, up to 21.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dph._base.files import atomic_file, make_directory
from dph_corpus.dedup.work import COPIES, NEAR, PREFERENCE_BYTES
from dph_corpus.documents import position
from dph_corpus.settings import Nearness
from dph_corpus.shards import position_range
from dph_corpus.sorting import RUN_BYTES, BatchWriter, SortedColumns, batches, merged_files
from dph_corpus.tables import TableWriter, schema_of

EXACT = "exact"
"""The reason for dropping a document with the same bytes as a better one."""
_KEPT = schema_of("index_kept")
_DROPPED = schema_of("index_dropped")
_BAND = schema_of("index_band")
_AT_ONCE, _AS_OBJECTS = 1 << 20, 1 << 10
Numbers = NDArray[np.integer[Any]]

LookCloser = Callable[[Iterator[dict[str, Any]]], Iterator[tuple[int, int, float]]]
"""Given the members of groups, group by group, says of near-copies their number, that of the kept
one and their similarity."""


def best_of(keys: Sequence[NDArray[Any]], numbers: NDArray[Any]) -> NDArray[Any]:
    """For each row the first number with the same ``keys``; rows come in the order of both."""
    first = np.ones(len(numbers), dtype=np.bool_)
    first[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    found: NDArray[Any] = numbers[np.flatnonzero(first)][np.cumsum(first) - 1]
    return found


def join(parents: Numbers, ones: NDArray[Any], others: NDArray[Any]) -> None:
    """Put each of ``ones`` into one group with that of ``others``.

    ``parents`` names for each number a smaller one of its group, or itself for the smallest.
    """
    while len(ones):
        first, second = roots(parents, ones), roots(parents, others)
        apart = first != second
        others = np.minimum(first, second)[apart]
        ones = np.maximum(first, second)[apart]
        np.minimum.at(parents, ones, others)


def roots(parents: Numbers, numbers: NDArray[Any]) -> NDArray[Any]:
    """The smallest number of each one's group; the way to it is short afterwards."""
    found, further = numbers, parents[numbers]
    while (further != found).any():
        found, further = further, parents[further]
    parents[numbers] = further
    return np.asarray(further)


@dataclass
class CopyIndex:
    """The copies among documents, by the marks of their shards."""

    marks: Sequence[Path]
    documents: int
    nearness: Nearness
    directory: Path
    run_bytes: int = RUN_BYTES
    _copies_of: Numbers = field(init=False)
    _near: Numbers = field(init=False)
    _values: NDArray[np.float64] | None = field(init=False, default=None)

    def find(self, look_closer: LookCloser) -> None:
        """Find out who is a copy of whom."""
        if self.directory.exists():  # of a run that was killed
            shutil.rmtree(self.directory)
        kind: Any = np.uint32 if self.documents < 2**32 else np.int64
        self._copies_of = np.arange(self.documents, dtype=kind)
        self._near = np.arange(self.documents, dtype=kind)
        self._number_documents()
        if not self.nearness.bands:
            return
        self._join_by_bands()
        for start in range(0, self.documents, _AT_ONCE):
            end = min(self.documents, start + _AT_ONCE)
            roots(self._near, np.arange(start, end, dtype=kind))
        if self.nearness.least_jaccard is not None:
            near = look_closer(self._members())
            self._values = np.full(self.documents, np.nan)
            found = np.arange(self.documents, dtype=kind)
            for number, kept, value in near:
                found[number], self._values[number] = kept, value
            self._near = found

    def write(self, places: Sequence[Path]) -> None:
        """Write the copies (``work.COPIES``) of each shard to be written, in a corpus's order."""
        copies = self._sorted("by-position", ["position", "number"])
        for table in self._with_kept_ids():
            copies.add(table)
        rows = _rows(copies.blocks())
        row = next(rows, None)
        for index, place in enumerate(places):
            _, high = position_range(index, len(places))
            with atomic_file(place) as temporary, TableWriter(temporary, COPIES) as table:
                while row is not None and row["position"] < high:
                    table.write({name: row[name] for name in COPIES.names})
                    row = next(rows, None)
        shutil.rmtree(self.directory)

    def _sorted(self, name: str, keys: Sequence[str]) -> SortedColumns:
        return SortedColumns(self.directory / name, keys, run_bytes=self.run_bytes)

    def _number_documents(self) -> None:
        """Write ids, bands and sizes in the order of preference; find equal texts."""
        digests = self._sorted("digests", ["first", "second", "number"])
        start = 0
        with BatchWriter(self._kept_file, _KEPT) as kept:
            for block in merged_files(self.marks, ["preference"], self.directory / "marks"):
                numbers = np.arange(start, start + len(block), dtype=np.int64)
                start += len(block)
                halves = _words(block["digest"]).reshape(-1, 2).T
                digests.add(pa.table({"first": halves[0], "second": halves[1], "number": numbers}))
                ids = [key[PREFERENCE_BYTES:].decode() for key in block["preference"].to_pylist()]
                kept.add(pa.table([ids, block["bands"], block["bytes"]], schema=_KEPT))
        for block in digests.blocks():
            numbers = block["number"].to_numpy()
            keys = [block[half].to_numpy() for half in ("first", "second")]
            self._copies_of[numbers] = best_of(keys, numbers)

    @property
    def _kept_file(self) -> Path:
        return make_directory(self.directory) / "documents.parquet"

    def _documents(self, *columns: str) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
        """Numbers and columns of all documents, in the order of preference."""
        start = 0
        for batch in batches(self._kept_file, columns):
            yield np.arange(start, start + len(batch), dtype=np.int64), batch
            start += len(batch)

    def _join_by_bands(self) -> None:
        """Join documents with an equal band, but for those that go as equal texts."""
        for path in self._bands():
            band = self._sorted(path.stem, ["band", "number"])
            for batch in batches(path):
                band.add(batch)
            path.unlink()
            for block in band.blocks():
                numbers = block["number"].to_numpy()
                best = best_of([block["band"].to_numpy()], numbers)
                tied = best != numbers
                join(self._near, numbers[tied], best[tied])

    def _bands(self) -> list[Path]:
        """A file for each band, with the documents' digests of it."""
        count = self.nearness.bands
        paths = [self.directory / f"band-{n:04d}.parquet" for n in range(count)]
        with ExitStack() as stack:
            writers = [stack.enter_context(BatchWriter(path, _BAND)) for path in paths]
            for numbers, batch in self._documents("bands"):
                there = self._copies_of[numbers] == numbers
                there &= pc.binary_length(batch["bands"]).to_numpy() > 0
                found = batch["bands"].combine_chunks().filter(pa.array(there))
                columns = _words(found).reshape(-1, count).T
                for writer, column in zip(writers, columns, strict=True):
                    writer.add(pa.table([column, numbers[there]], schema=_BAND))
        return paths

    def _members(self) -> Iterator[dict[str, Any]]:
        """The documents of groups of two or more, group by group."""
        grouped = np.zeros(self.documents, dtype=np.bool_)
        for start in range(0, self.documents, _AT_ONCE):
            part = self._near[start : start + _AT_ONCE]
            tied = part != np.arange(start, start + len(part))
            grouped[start : start + len(part)] |= tied
            grouped[part[tied]] = True
        groups = self._sorted("groups", ["group", "number"])
        for numbers, batch in self._documents(*_KEPT.names):
            chosen = grouped[numbers]
            table = batch.filter(pa.array(chosen))
            numbers = numbers[chosen]
            table = table.append_column("number", pa.array(numbers))
            groups.add(table.append_column("group", pa.array(self._near[numbers])))
        yield from _rows(groups.blocks())

    def _dropped(self) -> Iterator[pa.Table]:
        """The documents that go, by the number of the one that is kept in their place."""
        dropped = self._sorted("dropped", ["kept", "number"])
        for numbers, batch in self._documents("id"):
            best = self._copies_of[numbers]
            kept = self._near[best].astype(np.int64)
            gone = kept != numbers
            exact = (best != numbers)[gone]
            values = np.full(len(exact), np.nan)
            if self._values is not None:
                values = np.where(exact, np.nan, self._values[numbers[gone]])
            ids = batch["id"].filter(pa.array(gone))
            dropped.add(
                pa.table(
                    {
                        "id": ids,
                        "reason": np.where(exact, EXACT, NEAR).tolist(),
                        "value": pa.array(values, from_pandas=True),
                        "number": numbers[gone],
                        "kept": kept[gone],
                        "position": pa.array(map(position, ids.to_pylist()), pa.uint64()),
                    },
                    schema=_DROPPED,
                )
            )
        yield from dropped.blocks()

    def _with_kept_ids(self) -> Iterator[pa.Table]:
        """The documents that go, with the ids of those that stay."""
        blocks = self._dropped()
        waiting = next(blocks, None)
        for numbers, batch in self._documents("id"):
            end = int(numbers[-1]) + 1
            while waiting is not None and waiting["kept"][0].as_py() < end:
                kept = waiting["kept"].to_numpy()
                count = int(np.searchsorted(kept, end))
                places = pa.array(kept[:count] - numbers[0])
                ready = waiting.slice(0, count)
                yield ready.append_column("kept_id", batch["id"].take(places))
                left = waiting.slice(count)
                waiting = left if len(left) else next(blocks, None)


def _rows(blocks: Iterator[pa.Table]) -> Iterator[dict[str, Any]]:
    """The rows of blocks, of which few are objects of Python at a time."""
    for block in blocks:
        for start in range(0, len(block), _AS_OBJECTS):
            yield from block.slice(start, _AS_OBJECTS).to_pylist()


def _words(column: pa.ChunkedArray | pa.Array) -> NDArray[np.uint64]:
    """The bytes of a column, one value after the other, as numbers of 8 bytes."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    _, places, data = array.buffers()
    ends = np.frombuffer(places, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    if data is None or not len(array):
        return np.empty(0, dtype="<u8")
    return np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]].view("<u8")
