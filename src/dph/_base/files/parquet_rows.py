"""The tables of a parquet file, one after the other."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a parquet file.

    Raises:
        DataError: it is missing or not a parquet file.
    """
    try:
        return pq.ParquetFile(path)
    except OSError as error:
        raise DataError(f"cannot read {path} as parquet: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise DataError(
            f"cannot read {path} as parquet, it is not a parquet file: {error}"
        ) from error


def parquet_tables(
    path: Path, size: int, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of a parquet file as tables of up to ``size`` rows, which keep its schema.

    Raises:
        DataError: it cannot be read.
    """
    with open_parquet(path) as file:
        schema = file.schema_arrow
        wanted = None if columns is None else [n for n in schema.names if n in columns]
        kept = schema if wanted is None else pa.schema([schema.field(n) for n in wanted])
        try:
            for batch in file.iter_batches(batch_size=size, columns=wanted):
                yield pa.Table.from_batches([batch], schema=kept)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"cannot read {path} as parquet: {error}") from error
