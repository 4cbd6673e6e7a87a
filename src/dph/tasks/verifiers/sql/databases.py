"""What a directory of databases holds, as one fingerprint.

It changes when the content of a database does, when one comes, goes or gets another name, and
when a write-ahead log or an unfinished transaction lies beside one. It does not change when the
directory is moved, when files are touched, or when other files come or go.

Every database is read whole: SQLite counts the changes of a file in its header, but a file that was
made anew may have the same count and size. What was read is kept by path, size and time of
change, so that a process reads a file once, however often it asks. Several files are read at a
time: 33 GB (BIRD's training set) take as long as the disk does.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_BESIDE = ("-wal", "-journal")
_THREADS = 8


def databases_fingerprint(directory: Path) -> str:
    """The SHA-256 of the names and contents of all SQLite files below a directory."""
    files = sorted(_files(directory))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="dph-databases") as threads:
        digests = list(threads.map(_digest, files))
    held = {
        file.relative_to(directory).as_posix(): digest
        for file, digest in zip(files, digests, strict=True)
        if digest
    }
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def _files(directory: Path) -> Iterator[Path]:
    """All files below a directory; links are followed, each directory once."""
    seen: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(directory, followlinks=True):
        status = os.stat(folder)  # noqa: PTH116 - a path of os.walk
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        folders.sort()
        seen.add((status.st_dev, status.st_ino))
        yield from (path for name in names if (path := Path(folder, name)).is_file())


def _digest(file: Path) -> str:
    status = file.stat()
    return _read(str(file), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=65536)
def _read(path: str, size: int, _changed: int) -> str:
    """The SHA-256 of a database or of what lies beside one; '' for any other file."""
    if not size:
        return ""
    with Path(path).open("rb") as file:
        if not path.endswith(_BESIDE) and file.read(len(_MAGIC)) != _MAGIC:
            return ""
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()
