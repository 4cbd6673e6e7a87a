"""``tokens.parquet``, read back. Apart from what writes it, so that reading loads no torch."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError

TOKENS_FILE = "tokens.parquet"
SCHEMA = 1
VERSION = b"dph.schema"


def read_token_details(path: Path) -> pa.Table:
    """The rows of a ``tokens.parquet``.

    Raises:
        DataError: it is missing, damaged or of a later version.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    version = (table.schema.metadata or {}).get(VERSION, b"none").decode()
    if version != str(SCHEMA):
        raise DataError(f"{path} has schema {version}, this version of dph reads {SCHEMA}")
    return table
