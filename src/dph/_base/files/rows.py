"""Files of rows: parquet, JSON lines or CSV, the last two also gzipped. The one reader of them.

Every row comes with the place where it stands, for messages. Only a batch of rows is in memory.
"""

import csv
import datetime
import decimal
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError

_LONGEST_CELL = 2**31 - 1
"""The csv module stops at 131,072 characters by itself, which a response may have."""


def json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """The value of each line that is not blank, and where it stands."""
    for number, line in json_lines(path):
        place = f"{path}, line {number}"
        try:
            yield place, json.loads(line)
        except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8, or too deep
            raise DataError(f"{place}: not valid JSON: {error}") from error


def json_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with _opened(path) as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())


def csv_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row that is not blank by its columns, and where it begins. All values are text."""
    records = _csv_records(path)
    names = _header(path, records)
    for number, fields in records:
        place = f"{path}, line {number}"
        if len(fields) != len(names):
            raise DataError(
                f"{place}: the row has {len(fields)} fields, but there are {len(names)} columns: "
                f"{', '.join(names)}"
            )
        yield place, dict(zip(names, fields, strict=True))


def _header(path: Path, records: Iterator[tuple[int, Sequence[str]]]) -> tuple[str, ...]:
    _, names = next(records, (0, ()))
    if not all(names) or not names:
        raise DataError(f"{path}: the first line of a CSV file names its columns, got {[*names]}")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{path} has the column {', '.join(map(repr, twice))} more than once")
    return tuple(names)


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of each record that is not blank, and the line where it begins."""
    csv.field_size_limit(_LONGEST_CELL)
    start = 1
    with _opened(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            for fields in reader:
                if fields:
                    yield start, fields
                start = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}, line {start}: not valid CSV: {error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    """The file's bytes, unpacked; what the system or gzip refuses is a DataError."""
    try:
        with path.open("rb") as file:
            yield gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
    except gzip.BadGzipFile as error:
        raise DataError(f"cannot read {path} as gzip: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}, it is truncated or damaged: {error}") from error


def open_parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except OSError as error:
        raise DataError(f"cannot read {path} as parquet: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise DataError(f"{path} is not a parquet file: {error}") from error


def parquet_tables(
    path: Path, size: int, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of a parquet file as tables of up to ``size`` rows, which keep its schema."""
    with open_parquet(path) as file:
        schema = file.schema_arrow
        wanted = None if columns is None else [n for n in schema.names if n in columns]
        kept = schema if wanted is None else pa.schema([schema.field(n) for n in wanted])
        try:
            for batch in file.iter_batches(batch_size=size, columns=wanted):
                yield pa.Table.from_batches([batch], schema=kept)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"cannot read {path} as parquet: {error}") from error


class RowFormat(Enum):
    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"


_FORMATS = {
    ".parquet": RowFormat.PARQUET,
    ".jsonl": RowFormat.JSONL,
    ".jsonl.gz": RowFormat.JSONL,
    ".csv": RowFormat.CSV,
    ".csv.gz": RowFormat.CSV,
}
SUFFIXES = tuple(_FORMATS)
"""Ends of names of files of rows."""

_BATCH_ROWS = 1024
"""Rows of a parquet file that are Python objects at a time."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive rows; ``table`` holds the same if they come from parquet."""

    rows: Sequence[Mapping[str, Any]]
    table: pa.Table | None = None

    def as_table(self) -> pa.Table:
        """All columns of all rows; ``from_pylist`` takes only those of the first row."""
        if self.table is not None:
            return self.table
        names = dict.fromkeys(name for row in self.rows for name in row)
        return pa.table({name: [row.get(name) for row in self.rows] for name in names})

    def without(self, names: Sequence[str]) -> "Chunk":
        rows = [{n: value for n, value in row.items() if n not in names} for row in self.rows]
        if self.table is None:
            return Chunk(rows)
        return Chunk(
            rows, self.table.drop_columns([n for n in self.table.column_names if n in names])
        )


def row_format(path: Path) -> RowFormat:
    for suffix, found in _FORMATS.items():
        if path.name.endswith(suffix):
            return found
    raise DataError(f"{path} must end in one of {', '.join(SUFFIXES)}")


def plain_value(value: Any, place: str) -> Any:
    """A value of a parquet file as JSON; dates and decimals become text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [plain_value(item, place) for item in value]
        case dict():
            return {str(key): plain_value(item, place) for key, item in value.items()}
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case _:
            raise DataError(f"{place}: JSON has no {type(value).__name__}, got {value!r:.80}")


def read_rows(path: Path, *, columns: Sequence[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Each row as JSON, and where it stands: ``<path>, line 3``, or ``row 3`` of a parquet file.

    A row of a parquet or CSV file is a dict; a line of JSON may be anything. Dates and decimals of
    a parquet file become text, and all values of a CSV file are text. Lines and rows count from 1.

    Args:
        path: the file.
        columns: of a parquet file, those to read [default: all]; unknown ones are left out.
    """
    found = _require_file(path)
    if found is RowFormat.JSONL:
        yield from json_rows(path)
    elif found is RowFormat.CSV:
        yield from csv_rows(path)
    else:
        number = 0
        for table in parquet_tables(path, _BATCH_ROWS, columns):
            for row in _table_rows(table, path):
                number += 1
                place = f"{path}, row {number}"
                yield (
                    place,
                    {name: plain_value(value, f"{place}, {name}") for name, value in row.items()},
                )


def read_chunks(path: Path, size: int) -> Iterator[Chunk]:
    """The file's rows, ``size`` at a time; one empty chunk if it has none.

    Values of a parquet file are as pyarrow has them, so that they can be written back.
    """
    empty = True
    if _require_file(path) is RowFormat.PARQUET:
        for table in parquet_tables(path, size):
            empty = False
            yield Chunk(_table_rows(table, path), table)
        if empty:
            yield Chunk([], open_parquet(path).schema_arrow.empty_table())
        return
    rows = _objects(path)
    yield Chunk(list(islice(rows, size)))
    while chunk := list(islice(rows, size)):
        yield Chunk(chunk)


def count_rows(path: Path) -> int:
    """Number of rows of a file; blank lines do not count."""
    match _require_file(path):
        case RowFormat.PARQUET:
            return int(open_parquet(path).metadata.num_rows)
        case RowFormat.JSONL:
            return sum(1 for _ in json_lines(path))
        case RowFormat.CSV:
            return sum(1 for _ in csv_rows(path))


def column_names(path: Path) -> tuple[str, ...]:
    """The columns of a parquet or CSV file, or the fields of a jsonl file's first row."""
    match _require_file(path):
        case RowFormat.PARQUET:
            return tuple(open_parquet(path).schema_arrow.names)
        case RowFormat.JSONL:
            return tuple(next(_objects(path), {}))
        case RowFormat.CSV:
            return _header(path, _csv_records(path))


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    for place, row in read_rows(path):
        if not isinstance(row, dict):
            raise DataError(f"{place}: a row is a JSON object, got {row!r:.80}")
        yield row


def _table_rows(table: pa.Table, path: Path) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = table.to_pylist()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} has text that is not UTF-8: {error}") from error
    return rows


def _require_file(path: Path) -> RowFormat:
    found = row_format(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    return found
