"""Writing files so that a killed process never leaves half of one: temporary name, then rename."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of ``path`` that becomes ``path`` if the block succeeds.

    The temporary file is flushed to disk before the rename. A file or directory left there by a
    killed process is overwritten. If the block raises, ``path`` is untouched.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    _remove(temporary)
    try:
        yield temporary
        for file in [temporary] if temporary.is_file() else sorted(temporary.rglob("*")):
            if file.is_file():
                _flush(file)
        if path.is_dir():  # a directory cannot be replaced in one move: step aside first
            aside = path.with_name(f".{path.name}.old")
            _remove(aside)
            path.replace(aside)
            temporary.replace(path)
            _remove(aside)
        else:
            temporary.replace(path)
    finally:
        _remove(temporary)


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """``atomic_path`` for a file whose format is decided by its suffix."""
    with atomic_path(path) as temporary:
        named = temporary.with_suffix(path.suffix)
        try:
            yield named
            named.replace(temporary)
        finally:
            named.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically (UTF-8)."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
