"""What readers yield: files as bytes, or why there is none. Bytes become documents here."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
import pyarrow as pa
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
import pyarrow as pa
from dph.corpus.documents import Document
from dph.corpus.languages import language_of_path


# Packed files as streams of a bounded length: what unpacks to more than it should is cut off.

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


LARGEST = 8_000_000
"""Bytes of a file; larger ones are skipped, as OpenCoder does."""

DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(pa.ArrowException, OSError, EOFError, ValueError, LookupError, ArithmeticError),
    *(NotImplementedError, RuntimeError, RecursionError, MemoryError),
)
"""What the libraries raise where an archive or a file of rows is broken or made to break them."""


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file as it lies in its source; ``path`` is in it, with ``/``."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Skip:
    """What did not become a document: a short ``reason`` that is counted, and where it stands."""

    reason: str
    path: str
    note: str = ""


def document_of(file: RawFile, facts: Mapping[str, Any], label: str) -> Document | Skip:
    """The document of a file; ``facts`` are the fields that all files of its source share."""
    if len(file.data) > LARGEST:
        return Skip("oversized", file.path, f"{len(file.data)} bytes")
    if b"\0" in file.data:
        return Skip("binary", file.path)
    try:
        text = file.data.decode()
    except UnicodeDecodeError as error:
        return Skip("undecodable", file.path, str(error)[:200])
    language = language_of_path(file.path)
    return Document.of(
        text,
        id=f"{label}/{file.path}",
        path=file.path,
        source=label,
        language=language.name,
        doc_type=language.doc_type,
        **{"repo": label, **facts},
    )


def plain_path(path: str) -> str | None:
    """A member's path in its archive without ``.`` parts; None if it would lie outside of it."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    drive = bool(parts) and len(parts[0]) == 2 and parts[0][1] == ":"
    if not parts or ".." in parts or drive or path.startswith(("/", "\\")):
        return None
    return "/".join(parts)


def printable(text: str) -> str:
    """A name that can be stored: bytes that are not UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
