"""What one process at a time may have, where the one before may take a moment to end."""

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

from dph._base.files.directories import make_directory
from dph.errors import DataError

_PATIENCE = 60.0
"""Seconds: a child whose parent was killed notices within a moment, unless the machine is busy."""


@contextlib.contextmanager
def held(path: Path, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold the lock file ``path``, waiting for whoever holds it.

    Raises:
        DataError: somebody still holds it after ``patience`` seconds.
    """
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
