"""The finished chunks of a grading job, kept beside its target until the whole is written."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.files import atomic_path, make_directory, read_json, write_json


class GradedParts:
    """Numbered files in ``.<target>.parts/``, and what they were made from (``job.json``).

    Args:
        target: the file that they will become.
        job: what the parts depend on: the source's hash, the grader's settings, the chunk size.
        resume: keep the parts that are there, instead of starting again.

    Raises:
        DataError: ``resume`` is wanted and the parts belong to another job.
    """

    def __init__(self, target: Path, *, job: Mapping[str, Any], resume: bool) -> None:
        make_directory(target.parent)
        self._directory = target.with_name(f".{target.name}.parts")
        self._suffix = target.suffix
        if resume and self._directory.exists():
            self._require_same(job)
        elif self._directory.exists():
            shutil.rmtree(self._directory)
        if not self._directory.exists():
            with atomic_path(self._directory) as temporary:
                temporary.mkdir()
                write_json(temporary / "job.json", dict(job))

    def path(self, index: int) -> Path:
        """Where part ``index`` lies, or will lie."""
        return self._directory / f"{index:06d}{self._suffix}"

    @contextmanager
    def writing(self, index: int) -> Iterator[Path]:
        """A temporary file that becomes part ``index`` if the block succeeds."""
        with atomic_path(self.path(index)) as temporary:
            # The suffix decides the format, and a temporary name ends in another.
            named = temporary.with_suffix(self._suffix)
            yield named
            named.replace(temporary)

    def remove(self) -> None:
        """Remove all parts; the whole is written."""
        shutil.rmtree(self._directory)

    def _require_same(self, job: Mapping[str, Any]) -> None:
        found = read_json(self._directory / "job.json")
        if found == dict(job):
            return
        changed = [key for key in job if not isinstance(found, dict) or found.get(key) != job[key]]
        raise DataError(
            f"{self._directory} belongs to another job (another {', '.join(changed) or 'format'}); "
            "give the same input and options, or start again without --resume"
        )
