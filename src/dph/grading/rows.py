"""Files of rows, read and written a chunk at a time: parquet or jsonl, by their suffix."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError

SUFFIXES = (".parquet", ".jsonl")

Columns = Mapping[str, tuple[pa.DataType, Sequence[Any]]]
"""New columns by name: their type and one value for each row."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive rows; ``table`` holds the same if they come from parquet."""

    rows: list[dict[str, Any]]
    table: pa.Table | None = None

    def without(self, names: Sequence[str]) -> "Chunk":
        """The same rows without these columns."""
        rows = [
            {name: value for name, value in row.items() if name not in names} for row in self.rows
        ]
        if self.table is None:
            return Chunk(rows)
        return Chunk(
            rows, self.table.drop_columns([n for n in self.table.column_names if n in names])
        )


def require_suffix(path: Path) -> None:
    """Refuse a file that is neither parquet nor jsonl by its name.

    Raises:
        DataError: its suffix is another.
    """
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path} must end in one of {', '.join(SUFFIXES)}")


def count_rows(source: Path) -> int:
    """How many rows a file has; blank lines of a jsonl file are none.

    Raises:
        DataError: the file cannot be read.
    """
    if source.suffix == ".parquet":
        return int(_open_parquet(source).metadata.num_rows)
    return sum(1 for _ in _lines(source))


def column_names(source: Path) -> tuple[str, ...]:
    """The columns of a parquet file, or the fields of a jsonl file's first row.

    Raises:
        DataError: the file cannot be read.
    """
    if source.suffix == ".parquet":
        return tuple(_open_parquet(source).schema_arrow.names)
    return tuple(next((_row(source, number, line) for number, line in _lines(source)), {}))


def read_chunks(source: Path, size: int) -> Iterator[Chunk]:
    """The file's rows, ``size`` at a time; one empty chunk if it has none.

    Raises:
        DataError: the file cannot be read, or a line is no JSON object.
    """
    empty = True
    for chunk in _parquet(source, size) if source.suffix == ".parquet" else _jsonl(source, size):
        empty = False
        yield chunk
    if empty:
        schema = _open_parquet(source).schema_arrow if source.suffix == ".parquet" else None
        yield Chunk([], schema.empty_table() if schema is not None else None)


def write_part(path: Path, chunk: Chunk, columns: Columns) -> None:
    """Write a chunk and its new columns to ``path``.

    Raises:
        DataError: a value cannot be written in that format.
    """
    if path.suffix == ".parquet":
        pq.write_table(_with_columns(chunk, columns), path, compression="zstd")
        return
    names = list(columns)
    with path.open("wb") as file:
        for row, added in zip(
            chunk.rows, zip(*(values for _, values in columns.values()), strict=True), strict=True
        ):
            file.write(_encode(row | dict(zip(names, added, strict=True))))


def read_part(path: Path, names: Sequence[str]) -> list[list[Any]]:
    """The named columns of a part, in that order."""
    if path.suffix == ".parquet":
        table = pq.read_table(path, columns=list(names))
        return [table.column(name).to_pylist() for name in names]
    rows = [json.loads(line) for _, line in _lines(path)]
    return [[row[name] for row in rows] for name in names]


def join_parts(parts: Sequence[Path], target: Path) -> None:
    """Write the parts one after the other to ``target``, a part in memory at a time.

    Raises:
        DataError: the parts' columns do not fit together.
    """
    if target.suffix == ".parquet":
        _join_tables(parts, target)
        return
    with target.open("wb") as file:
        for part in parts:
            file.write(part.read_bytes())


def _join_tables(parts: Sequence[Path], target: Path) -> None:
    schemas = [pq.read_schema(part) for part in parts]
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"the rows do not fit into one table ({error}); write to a .jsonl file instead"
        ) from error
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for part in parts:
            table = pq.read_table(part)
            missing = [field for field in schema if field.name not in table.column_names]
            for field in missing:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            writer.write_table(table.select(schema.names).cast(schema))


def _with_columns(chunk: Chunk, columns: Columns) -> pa.Table:
    try:
        table = chunk.table if chunk.table is not None else pa.Table.from_pylist(chunk.rows)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise DataError(
            f"the rows do not fit into one table ({error}); write to a .jsonl file instead"
        ) from error
    for name, (kind, values) in columns.items():
        table = table.append_column(name, pa.array(values, kind))
    return table


def _open_parquet(source: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(source)
    except OSError as error:
        raise DataError(f"cannot read {source}: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise DataError(f"{source} is not a parquet file: {error}") from error


def _parquet(source: Path, size: int) -> Iterator[Chunk]:
    with _open_parquet(source) as file:
        for batch in file.iter_batches(batch_size=size):
            table = pa.Table.from_batches([batch], schema=file.schema_arrow)
            try:
                rows = table.to_pylist()
            except UnicodeDecodeError as error:
                raise DataError(f"{source} has text that is not UTF-8: {error}") from error
            yield Chunk(rows, table)


def _jsonl(source: Path, size: int) -> Iterator[Chunk]:
    rows = (_row(source, number, line) for number, line in _lines(source))
    while chunk := list(islice(rows, size)):
        yield Chunk(chunk)


def _lines(source: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    try:
        with source.open("rb") as file:
            yield from _not_blank(file)
    except OSError as error:
        raise DataError(f"cannot read {source}: {error.strerror}") from error


def _not_blank(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _row(source: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{source}, line {number} is not valid JSON: {error}") from error
    except RecursionError as error:
        raise DataError(f"{source}, line {number} is nested too deeply") from error
    if not isinstance(row, dict):
        raise DataError(f"{source}, line {number} is not a JSON object but {type(row).__name__}")
    return row


def _encode(row: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(row, ensure_ascii=False)
    except TypeError as error:
        raise DataError(f"a value is not JSON ({error}); write to a .parquet file") from error
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can carry
        return json.dumps(row).encode("ascii") + b"\n"
