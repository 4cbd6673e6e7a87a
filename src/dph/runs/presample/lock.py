"""One process at a time makes a pool, whatever happens to the pools beside it."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from dph._base.files import make_directory
from dph.errors import DataError


@contextlib.contextmanager
def only_pool_writer(path: Path, *, what: str = "pool (presample.pool)") -> Iterator[None]:
    """Hold the pool ``path`` for this process; whoever comes second is refused.

    The lock is on a file beside the pool, ``.<name>.lock``: the pool itself appears by a rename,
    so there is nothing in it to hold on to. The operating system drops the lock when the process
    ends, however that happens. The file goes at the end; one that a killed process left is in
    nobody's way.

    ``what`` is made there, and the setting that says where.

    Raises:
        DataError: another process holds the pool, or its parent directory cannot be written.
    """
    lock = make_directory(path.parent) / f".{path.name}.lock"
    with contextlib.ExitStack() as held:
        while not _lock(lock, path, what, held):
            pass  # its last holder removed the file after it was opened here: take the new one
        held.callback(lock.unlink, missing_ok=True)
        yield


def _lock(lock: Path, path: Path, what: str, held: contextlib.ExitStack) -> bool:
    """Lock the file, which is closed with ``held``; false if it is not the one at ``lock`` now."""
    kind, _, setting = what.partition(" ")
    file = held.enter_context(lock.open("a", encoding="utf-8"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DataError(
            f"another dph process is making the {kind} {path}; wait for it, or choose another "
            f"place {setting}"
        ) from error
    try:
        return os.path.samestat(os.fstat(file.fileno()), lock.stat())
    except FileNotFoundError:
        return False
