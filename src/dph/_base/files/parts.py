"""Finished pieces of a long job, kept until the whole is written: a kill costs one piece."""

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_file, make_directory, read_json, write_json
from dph.errors import DataError

logger = logging.getLogger(__name__)

_JOB = "job.json"
T = TypeVar("T")


class Earlier(Enum):
    """Treatment of the parts that an earlier job left in the directory."""

    KEPT_IF_SAME = auto()
    """Those of the same job are kept; others are removed, with a warning."""
    REQUIRED_SAME = auto()
    """Those of the same job are kept; others are an error."""
    REMOVED = auto()
    """The job starts from nothing."""


class Parts:
    """Numbered files in a directory, and the job that they belong to (``job.json``).

    The directory appears with the first piece. Pieces may be written by several threads, but by
    one process. ``job`` is everything that they depend on, as JSON.
    """

    def __init__(
        self, directory: Path, *, job: Mapping[str, Any], suffix: str, earlier: Earlier
    ) -> None:
        self._directory, self._job, self._suffix = directory, dict(job), suffix
        self._starting = Lock()
        if directory.exists():
            self._take_over(earlier)
        make_directory(directory.parent)

    def path(self, index: int) -> Path:
        return self._directory / f"{index:06d}{self._suffix}"

    @contextmanager
    def writing(self, index: int) -> Iterator[Path]:
        with self._starting:
            if not (self._directory / _JOB).exists():
                write_json(make_directory(self._directory) / _JOB, self._job)
        with atomic_file(self.path(index)) as temporary:
            yield temporary

    def remove(self) -> None:
        if self._directory.exists():
            shutil.rmtree(self._directory)

    def _take_over(self, earlier: Earlier) -> None:
        found = self._found_job()
        if found == self._job and earlier is not Earlier.REMOVED:
            return
        pieces = sorted(self._directory.glob("[!.]*"))
        if earlier is Earlier.REQUIRED_SAME and pieces:
            known = found if isinstance(found, dict) else {}
            changed = [key for key in self._job if known.get(key) != self._job[key]] or ["format"]
            raise DataError(
                f"{self._directory} belongs to another job (different {', '.join(changed)}); "
                "use the same input and options, or remove it to start again"
            )
        if earlier is Earlier.KEPT_IF_SAME and pieces:
            logger.warning("%s has parts of a job with other settings: removed", self._directory)
        for path in pieces:  # the job's own file, which a lock may stand beside, is the last
            path.unlink()

    def _found_job(self) -> Any:
        try:
            return read_json(self._directory / _JOB)
        except DataError:  # missing or cut off: any pieces belong to no job
            return None


class TableParts(Parts):
    """Parts that are tables."""

    def __init__(
        self, directory: Path, *, job: Mapping[str, Any], earlier: Earlier = Earlier.KEPT_IF_SAME
    ) -> None:
        super().__init__(directory, job=job, suffix=".parquet", earlier=earlier)

    def read(self, index: int) -> pa.Table | None:
        """The piece ``index``, or None if it is not finished (or damaged, with a warning)."""
        path = self.path(index)
        try:
            return pq.read_table(path) if path.exists() else None
        except (OSError, pa.ArrowException):
            logger.warning("%s is damaged: it will be made again", path)
            return None

    def write(self, index: int, table: pa.Table) -> None:
        with self.writing(index) as path:
            pq.write_table(table, path, compression="zstd")

    def tables(
        self,
        chunks: Iterable[T],
        make: Callable[[T], pa.Table],
        *,
        found: Callable[[T, pa.Table], None] | None = None,
    ) -> list[pa.Table]:
        """The table of every chunk: read if an earlier call finished it, else made and kept."""
        tables = []
        for index, chunk in enumerate(chunks):
            table = self.read(index)
            if table is None:
                table = make(chunk)
                self.write(index, table)
            elif found is not None:
                found(chunk, table)
            tables.append(table)
        return tables
