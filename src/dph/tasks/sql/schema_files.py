"""Schemas from whatever file a data set brings."""

from pathlib import Path

from dph.tasks.sql.bird import read_schema_rows
from dph.tasks.sql.schema import Schema, read_tables


def schemas_of(tables: Path | None) -> dict[str, Schema]:
    """The schemas in a ``tables.json`` or a parquet file of columns; none without a file.

    Raises:
        DataError: the file is missing or malformed.
    """
    if tables is None:
        return {}
    return read_schema_rows(tables) if tables.suffix == ".parquet" else read_tables(tables)
