"""What readers yield: files as bytes, or why there is none. Bytes become documents here."""

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
