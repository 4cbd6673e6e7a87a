"""Packed files as streams of a bounded length: what unpacks to more than it should is cut off."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

ALWAYS_ALLOWED = 256_000_000
"""Bytes that any file may unpack to."""
MOST_EXPANSION = 200
"""And how many times its own size. Sources pack about 5 times, dull tables up to 100."""

_MAGIC: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"),
}
"""How a packed file begins, and what unpacks it. pyarrow reads zstd, which it brings along."""


class TooLargeError(ValueError):
    """A stream is longer than it may be."""


class BoundedStream(io.RawIOBase):
    """The first ``limit`` bytes of ``source``; reading on raises TooLargeError."""

    def __init__(self, source: Any, limit: int) -> None:
        self._source, self._left = source, limit

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read up to as many bytes as fit."""
        data = self._source.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise TooLargeError("it unpacks to more than it may")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def unpacked(path: Path) -> Iterator[io.BufferedReader]:
    """The bytes of a file, unpacked if its first bytes say that it is packed."""
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("rb"))
        head = file.read(6)
        file.seek(0)
        limit = allowed(path.stat().st_size)
        for magic, opened in _MAGIC.items():
            if head.startswith(magic):
                file = stack.enter_context(opened(file))
        yield io.BufferedReader(BoundedStream(file, limit), 1 << 18)


def allowed(size: int) -> int:
    """How many bytes a file of ``size`` bytes may unpack to."""
    return max(ALWAYS_ALLOWED, MOST_EXPANSION * size)
