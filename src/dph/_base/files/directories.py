"""Directories that can be written to, and that one process at a time writes into."""

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dph.errors import DataError


def make_directory(path: Path) -> Path:
    """Create ``path`` (and its parents) and make sure that it can be written to.

    Raises:
        DataError: it is a file, or cannot be created or written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise DataError(f"cannot write into the directory {path}: {error.strerror}") from error
    return path


@contextlib.contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Hold ``directory`` (made if need be) for this process; whoever comes second is refused.

    The lock is the operating system's and ends with the process, however that ends.

    Raises:
        DataError: another process holds it, or it cannot be written.
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
