"""The finished chunks of a grading job, kept beside its target until the whole is written."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.files import atomic_path, read_json, write_json

_JOB = "job.json"


def parts_directory(target: Path) -> Path:
    """Where the finished chunks of ``target`` are kept."""
    return target.with_name(f".{target.name}.parts")


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """``atomic_path`` for a file whose format is decided by its suffix."""
    with atomic_path(path) as temporary:
        named = temporary.with_suffix(path.suffix)
        try:
            yield named
            named.replace(temporary)
        finally:
            named.unlink(missing_ok=True)


class GradedParts:
    """Numbered files in ``.<target>.parts/``, and what they were made from (``job.json``).

    The directory has to be there, and this process its ``only_writer``.

    Args:
        target: the file that they will become.
        job: what the parts depend on: the source's hash, the grader's settings, the chunk size.
        resume: keep the parts that are there, instead of starting again.

    Raises:
        DataError: ``resume`` is wanted and the parts belong to another job.
    """

    def __init__(self, target: Path, *, job: Mapping[str, Any], resume: bool) -> None:
        self._directory = parts_directory(target)
        self._suffix = target.suffix
        if resume and (self._directory / _JOB).exists():
            self._require_same(job)
            return
        for path in sorted(self._directory.glob("[!.]*")):
            path.unlink()
        write_json(self._directory / _JOB, dict(job))

    def path(self, index: int) -> Path:
        """Where part ``index`` lies, or will lie."""
        return self._directory / f"{index:06d}{self._suffix}"

    @contextmanager
    def writing(self, index: int) -> Iterator[Path]:
        """A temporary file that becomes part ``index`` if the block succeeds."""
        with atomic_file(self.path(index)) as temporary:
            yield temporary

    def remove(self) -> None:
        """Remove all parts; the whole is written."""
        shutil.rmtree(self._directory)

    def _require_same(self, job: Mapping[str, Any]) -> None:
        found = read_json(self._directory / _JOB)
        if found == dict(job):
            return
        changed = [key for key in job if not isinstance(found, dict) or found.get(key) != job[key]]
        raise DataError(
            f"{self._directory} belongs to another job (another {', '.join(changed) or 'format'}); "
            "give the same input and options, or start again without --resume"
        )
