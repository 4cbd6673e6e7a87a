"""Finished pieces of a long job, kept until the whole is written: a kill costs one piece."""

import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError
from dph.files import atomic_path, make_directory, read_json, write_json

logger = logging.getLogger(__name__)


class Parts:
    """Numbered tables in a directory that belong to one job, named by a digest.

    Pieces of a job with another digest are removed, with a warning, when the new job starts: they
    could not be part of its result.
    """

    def __init__(self, directory: Path, *, digest: str) -> None:
        self._directory, self._digest = directory, digest
        if directory.exists() and self._found_digest() != digest:
            logger.warning("%s holds pieces of a job with other settings: removed", directory)
            shutil.rmtree(directory)
        make_directory(directory.parent)

    def _found_digest(self) -> str | None:
        try:
            return str(read_json(self._directory / "job.json")["digest"])
        except (DataError, KeyError, TypeError):
            return None

    def read(self, index: int) -> pa.Table | None:
        """The piece ``index``, or None if it is not finished (or damaged, with a warning)."""
        path = self._path(index)
        try:
            return pq.read_table(path) if path.exists() else None
        except (OSError, pa.ArrowException):
            logger.warning("%s is damaged: it is made again", path)
            return None

    def write(self, index: int, table: pa.Table) -> None:
        """Keep the piece ``index``; with the first one the directory appears."""
        if not self._directory.exists():
            with atomic_path(self._directory) as temporary:
                temporary.mkdir()
                write_json(temporary / "job.json", {"digest": self._digest})
        with atomic_path(self._path(index)) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    def remove(self) -> None:
        """Remove all pieces; the whole is written."""
        if self._directory.exists():
            shutil.rmtree(self._directory)

    def _path(self, index: int) -> Path:
        return self._directory / f"{index:06d}.parquet"
