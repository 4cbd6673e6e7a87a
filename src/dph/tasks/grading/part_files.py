"""The files that grading writes: chunks as parquet or JSON lines, joined to any file of rows."""

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files.rows import Chunk, RowFormat, read_rows, row_format
from dph.errors import DataError

Columns = Mapping[str, tuple[pa.DataType, Sequence[Any]]]
"""New columns by name: their type and one value for each row."""


def require_target(path: Path) -> None:
    """Refuse an output that is no file of rows by its name, or that is a directory.

    Raises:
        DataError: says which.
    """
    row_format(path)
    if path.is_dir():
        raise DataError(f"the output {path} is a directory")


def parts_directory(target: Path) -> Path:
    """Where the finished chunks of ``target`` are kept."""
    return target.with_name(f".{target.name}.parts")


def part_suffix(target: Path) -> str:
    """How chunks of ``target`` are kept; verdicts of a text file are counted from JSON lines."""
    return ".parquet" if row_format(target) is RowFormat.PARQUET else ".jsonl"


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
    rows = [row for _, row in read_rows(path)]
    return [[row[name] for row in rows] for name in names]


def join_parts(
    parts: Sequence[Path], target: Path, *, name: str, columns: Sequence[str] = ()
) -> None:
    """Write the parts one after the other to ``target``, a part in memory at a time.

    ``name`` is what ``target`` will be called: it says how the rows are written. ``columns`` come
    first in a CSV file.

    Raises:
        DataError: the parts' columns do not fit together, or a text cannot be written.
    """
    form = row_format(Path(name))
    if form is RowFormat.PARQUET:
        _join_tables(parts, target)
        return
    pieces = _csv_pieces(parts, columns) if form is RowFormat.CSV else map(Path.read_bytes, parts)
    with target.open("wb") as file:
        if not name.endswith(".gz"):
            file.writelines(pieces)
            return
        # Without a name and a time in it, the same rows are the same bytes.
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            packed.writelines(pieces)


def _csv_pieces(parts: Sequence[Path], first: Sequence[str]) -> Iterator[bytes]:
    """The columns of all rows, then the rows, part by part; what a row lacks is empty.

    Texts stand as they are, other values as JSON.
    """
    columns = dict.fromkeys(first)
    for part in parts:
        for _, row in read_rows(part):
            columns.update(dict.fromkeys(row))
    yield _csv_lines([list(columns)])
    for part in parts:
        rows = (row for _, row in read_rows(part))
        yield _csv_lines([[_cell(row.get(name)) for name in columns] for row in rows])


def _csv_lines(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    try:
        return text.getvalue().encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"a text cannot be written as UTF-8 ({error}); write to a .jsonl file instead"
        ) from error


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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


def _encode(row: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(row, ensure_ascii=False)
    except TypeError as error:
        raise DataError(f"a value is not JSON ({error}); write to a .parquet file") from error
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can carry
        return json.dumps(row).encode("ascii") + b"\n"
