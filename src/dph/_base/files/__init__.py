"""Files that appear whole or not at all (a temporary name, then a rename), and locks.

Rows and parts of files are in ``dph._base.files.rows`` and ``dph._base.files.parts``, which load
pyarrow.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dph.errors import DataError

__all__ = [
    "atomic_file",
    "atomic_path",
    "held",
    "make_directory",
    "only_writer",
    "read_json",
    "require_other_file",
    "sha256",
    "write_json",
    "write_json_lines",
    "write_text",
]


def make_directory(path: Path) -> Path:
    """Create ``path`` (and its parents) and make sure that it can be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise DataError(f"cannot write into the directory {path}: {error.strerror}") from error
    return path


def require_other_file(target: Path, source: Path) -> None:
    if target.resolve() == source.resolve():
        raise DataError(f"{target} is the input; write to another file")


@contextlib.contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Hold ``directory`` (made if need be) for this process; a second one is refused.

    The lock is the operating system's and ends with the process, however that ends.
    """
    with (make_directory(directory) / ".lock").open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataError(
                f"another dph process is writing into {directory}; wait for it, or choose another "
                "directory"
            ) from error
        yield


_PATIENCE = 60.0
"""Seconds: a child whose parent was killed notices within a moment, unless the machine is busy."""


@contextlib.contextmanager
def held(path: Path, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold the lock file ``path``, waiting until it is free."""
    make_directory(path.parent)
    until = time.monotonic() + patience
    with path.open("a", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() > until:
                    raise DataError(
                        f"another process has been holding {path} for {patience:g} s; is the same "
                        "command running twice?"
                    ) from error
                time.sleep(0.1)
        yield


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
                with file.open("rb") as written:
                    os.fsync(written.fileno())
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
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as readable JSON, atomically; NaN and infinity are refused."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def write_json_lines(
    path: Path,
    rows: Iterable[Mapping[str, Any]],
    *,
    ascii_only: bool = True,
    sort_keys: bool = False,
) -> None:
    """Write a row a line as JSON, atomically; letters beyond ASCII escaped if ``ascii_only``."""
    lines = (json.dumps(row, ensure_ascii=ascii_only, sort_keys=sort_keys) for row in rows)
    write_text(path, "".join(f"{line}\n" for line in lines))


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
