"""One process at a time makes a pool; pools beside it are nobody's business."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from dph.errors import DataError
from dph.files import make_directory


@contextlib.contextmanager
def only_pool_writer(path: Path) -> Iterator[None]:
    """Hold the pool ``path`` for this process; whoever comes second is refused.

    The lock is a file beside the pool, ``.<name>.lock``: the pool itself appears by a rename, so
    there is nothing in it to hold on to. The operating system drops the lock when the process
    ends, however that happens; the file stays.

    Raises:
        DataError: another process holds the pool, or its parent directory cannot be written.
    """
    lock = make_directory(path.parent) / f".{path.name}.lock"
    with lock.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataError(
                f"another dph process is making the pool {path}; wait for it, or choose another "
                "place (presample.pool)"
            ) from error
        yield
