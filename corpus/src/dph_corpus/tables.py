"""Rows to parquet as a stream: the same rows make the same bytes, whatever was flushed when."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.closing import Ending
from dph._base.files.rows import open_parquet
from dph.errors import DataError
from dph_corpus.documents import FIELDS, DocType, Document, position
from dph_corpus.packaged import packaged

_SCHEMAS = packaged("schemas.toml", dict[str, dict[str, str]])


def schema_of(table: str) -> pa.Schema:
    """The columns of a table of ``schemas.toml``."""
    texts = pa.list_(pa.string())
    return pa.schema(
        [(n, texts if t == "texts" else pa.type_for_alias(t)) for n, t in _SCHEMAS[table].items()]
    )


DOCUMENTS = schema_of("documents")
"""The columns of a shard of documents."""

_GROUP_ROWS = 1024
_GROUP_BYTES = 16_000_000
"""Text of a row group; a reader holds one of them."""


class TableWriter(Ending):
    """Writes rows of one schema to ``path``, row group by row group, in a ``with``.

    ``path`` is a temporary name of the caller (``dph._base.files.atomic_file``); ``parquet`` are
    settings of the format.
    """

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        *,
        group_bytes: int = _GROUP_BYTES,
        parquet: Mapping[str, Any] = MappingProxyType({"compression": "zstd"}),
    ) -> None:
        self._schema, self._group_bytes = schema, group_bytes
        self._writer = pq.ParquetWriter(path, schema, **parquet)
        self._rows: list[Mapping[str, Any]] = []
        self._size = 0
        self.rows = 0

    def write(self, row: Mapping[str, Any], *, size: int = 0) -> None:
        """Add a row; ``size`` is about what it weighs, in bytes."""
        self._rows.append(row)
        self._size += size
        self.rows += 1
        if len(self._rows) >= _GROUP_ROWS or self._size >= self._group_bytes:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, self._schema))
            self._rows, self._size = [], 0

    def leave(self, *, well: bool) -> None:
        """Write what is left, unless the block failed, and close."""
        if well:
            self._flush()
        self._writer.close()


class DocumentWriter(Ending):
    """Writes the documents of a shard, which come in the order of a corpus, each id once."""

    def __init__(self, path: Path) -> None:
        self._table = TableWriter(path, DOCUMENTS)
        self._last = (-1, "")
        self.bytes = 0

    @property
    def rows(self) -> int:
        """Number of documents written."""
        return self._table.rows

    def write(self, document: Document) -> None:
        """Add a document."""
        place = (position(document.id), document.id)
        if place <= self._last:
            raise DataError(f"the document {document.id!r} does not come after {self._last[1]!r}")
        self._last = place
        self.bytes += document.bytes
        self._table.write(document.row(), size=len(document.text))

    def leave(self, *, well: bool) -> None:
        """As of the table."""
        self._table.leave(well=well)


def read_documents(path: Path) -> Iterator[Document]:
    """The documents of a shard, in order; a row group is in memory at a time."""
    for row in read_table(path, FIELDS):
        yield Document(**row | {"doc_type": DocType(row["doc_type"])})


def read_table(path: Path, columns: tuple[str, ...] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a parquet file by row group."""
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        if missing := [name for name in columns or () if name not in names]:
            raise DataError(f"{path} has no column {', '.join(missing)}; it has {', '.join(names)}")
        try:
            for group in range(file.metadata.num_row_groups):
                yield from file.read_row_group(group, columns=columns and list(columns)).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"cannot read {path} as parquet: {error}") from error
