"""The files that grading writes, a chunk at a time: parquet or jsonl, by their suffix."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError
from dph.files.rows import Chunk, read_rows

TARGET_SUFFIXES = (".parquet", ".jsonl")
"""What the name of a graded file can end in."""

Columns = Mapping[str, tuple[pa.DataType, Sequence[Any]]]
"""New columns by name: their type and one value for each row."""


def require_target(path: Path) -> None:
    """Refuse an output that is neither parquet nor jsonl by its name, or that is a directory.

    Raises:
        DataError: says which.
    """
    if path.suffix not in TARGET_SUFFIXES:
        raise DataError(f"{path} must end in one of {', '.join(TARGET_SUFFIXES)}: it is written")
    if path.is_dir():
        raise DataError(f"the output {path} is a directory")


def parts_directory(target: Path) -> Path:
    """Where the finished chunks of ``target`` are kept."""
    return target.with_name(f".{target.name}.parts")


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


def _encode(row: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(row, ensure_ascii=False)
    except TypeError as error:
        raise DataError(f"a value is not JSON ({error}); write to a .parquet file") from error
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can carry
        return json.dumps(row).encode("ascii") + b"\n"
