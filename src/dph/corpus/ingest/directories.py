"""Files of a directory: regular ones, without following links."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from dph.corpus.ingest.reading import LARGEST, RawFile, Skip, printable
from dph.errors import DataError

_NOT_FILES_OF_OURS = frozenset({".git", ".hg", ".svn"})


def list_files(directory: Path, *, without: Path | None = None) -> list[tuple[str, int, int]]:
    """Path, size and time of change (ns) of each file and link below ``directory``, in order.

    Bookkeeping of version control is left out, and so is the directory ``without``.

    Raises:
        DataError: ``directory`` itself cannot be read.
    """
    found: list[tuple[str, int, int]] = []
    open_directories = [""]
    while open_directories:
        place = open_directories.pop()
        try:
            entries = sorted(os.scandir(directory / place), key=lambda entry: entry.name)
        except OSError as error:
            if not place:
                raise DataError(f"cannot read {directory}: {error.strerror}") from error
            found.append((place, 0, 0))  # reading it says that it cannot be read
            continue
        for entry in entries:
            path = f"{place}/{entry.name}" if place else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _NOT_FILES_OF_OURS and not _same(entry, without):
                    open_directories.append(path)
            else:
                state = entry.stat(follow_symlinks=False)
                found.append((path, state.st_size, state.st_mtime_ns))
    return sorted(found)


def _same(entry: os.DirEntry[str], other: Path | None) -> bool:
    return other is not None and other.exists() and other.samefile(entry.path)


def directory_files(directory: Path, paths: Sequence[str]) -> Iterator[RawFile | Skip]:
    """The files at ``paths``; links, devices and what cannot be read are skips."""
    for path in paths:
        name = printable(path)
        try:
            data = _read(directory / path)
        except OSError as error:
            yield Skip("unreadable", name, error.strerror or "")
            continue
        yield RawFile(name, data) if isinstance(data, bytes) else Skip(data.reason, name, data.note)


def _read(path: Path) -> bytes | Skip:
    state = path.lstat()
    if stat.S_ISLNK(state.st_mode):
        return Skip("link", "")
    if not stat.S_ISREG(state.st_mode):
        return Skip("unreadable" if stat.S_ISDIR(state.st_mode) else "special", "")
    if state.st_size > LARGEST:
        return Skip("oversized", "", f"{state.st_size} bytes")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - of a descriptor that follows no link
        return file.read(LARGEST + 1)
