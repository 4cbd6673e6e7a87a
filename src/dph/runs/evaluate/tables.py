"""Tables of an evaluation as parquet files that carry the digest of their inputs."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph._base.files import atomic_path
from dph.errors import DataError

_DIGEST, _SCHEMA = b"dph.digest", b"dph.schema"


def write_table(
    path: Path,
    table: pa.Table,
    *,
    digest: str,
    schema: int | None = None,
    rows_a_group: int | None = None,
) -> None:
    """Write ``table`` whole or not at all, with the digest of its inputs and a schema number."""
    marks = {_DIGEST: digest} | ({} if schema is None else {_SCHEMA: str(schema)})
    with atomic_path(path) as temporary:
        marked = table.combine_chunks().replace_schema_metadata(marks)
        pq.write_table(marked, temporary, compression="zstd", row_group_size=rows_a_group)


def digest_of(path: Path) -> str | None:
    """The digest of a table, '' if it has none; None if there is no such file."""
    if not path.exists():
        return None
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is damaged: {error}; remove it to make it again") from error
    return str(metadata.get(_DIGEST, b"").decode())


def read_table(path: Path, *, schema: int) -> pa.Table:
    """The table of a file with this schema number."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    found = (table.schema.metadata or {}).get(_SCHEMA, b"none").decode()
    if found != str(schema):
        raise DataError(f"{path} has schema {found}, this version of dph reads {schema}")
    return table


def parts_by_set(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each set, in the order of the table."""
    for name in table["set"].unique().to_pylist():
        yield name, table.filter(pc.field("set") == name)
