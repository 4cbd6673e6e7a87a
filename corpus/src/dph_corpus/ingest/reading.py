"""Readers yield files as bytes, or reasons for having none. Bytes become documents here."""

import bz2
import datetime
import gzip
import hashlib
import io
import json
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import SettingsError
from dph_corpus.documents import UNKNOWN, DocType, Document, language_named, language_of_path
from dph_corpus.packaged import packaged

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
"""First bytes of a packed file, and the function that unpacks it. pyarrow brings zstd along."""


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
            raise TooLargeError("it unpacks to more than the limit")
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
    """Number of bytes that a file of ``size`` bytes may unpack to."""
    return max(ALWAYS_ALLOWED, MOST_EXPANSION * size)


LARGEST = 8_000_000
"""Bytes of a file; larger ones are skipped, as OpenCoder does."""

DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(pa.ArrowException, OSError, EOFError, ValueError, LookupError, ArithmeticError),
    *(NotImplementedError, RuntimeError, RecursionError, MemoryError),
)
"""Errors of the libraries where an archive or a file of rows is broken or made to break them."""


LEFT_OUT = (
    *("link", "submodule", "special", "lfs_pointer", "binary", "oversized"),
    *("http_status", "not_html", "not_http", "no_url", "no_text"),
)
"""Reasons for leaving an input out on purpose; all others say that it is damaged."""
ID_TAKEN = "id_taken"
"""Reason for dropping a document whose id another text has, unless it is a newer crawl."""


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file as it lies in its source; ``path`` is in it, with ``/``."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Skip:
    """An input that did not become a document: a short ``reason`` to count, and its place."""

    reason: str
    path: str
    note: str = ""


def damaged(what: str, place: str, error: Exception, more: str = "") -> Skip:
    """The skip for what a library could not read, or where it could not read on."""
    note = ": ".join(filter(None, (type(error).__name__, f"{error}"[:150], more)))
    return Skip(f"{what}_damaged", printable(place), printable(note))


def document_of(file: RawFile, facts: Mapping[str, Any], label: str) -> Document | Skip:
    """The document of a file; ``facts`` are the fields that all files of its source share."""
    if len(file.data) > LARGEST:
        return Skip("oversized", file.path, f"{len(file.data)} bytes")
    if b"\0" in file.data:
        return Skip("binary", file.path)
    if file.data.startswith(b"version https://git-lfs.github.com/spec/"):
        return Skip("lfs_pointer", file.path)
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


# Documents of files of rows: JSON lines, also packed, parquet, and streams of Arrow.

ROW_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow")
_LONGEST_LINE = 4 * LARGEST
"""Bytes; JSON may take several for a character."""
_BATCH = 64

_NAMES = packaged("ingest/columns.toml", dict[str, tuple[str, ...]])
"""The columns that a field may come in, best first."""
_NUMBERS = ("stars", "commit_time", "bytes")
_SPOKEN = ("gn", "hy", "io", "nl")
"""Languages of people that programming languages share their names with."""


def column_choices(texts: Sequence[str]) -> dict[str, str]:
    """Columns by field, of texts FIELD=COLUMN."""
    found: dict[str, str] = {}
    for text in texts:
        field, equals, column = text.partition("=")
        if not equals or not column or field not in _NAMES:
            raise SettingsError(
                f"a column must be given as FIELD=NAME with FIELD one of {', '.join(_NAMES)}; got "
                f"{text!r}"
            )
        if field in found:
            raise SettingsError(f"the column of {field} is given twice: {found[field]}, {column}")
        found[field] = column
    return found


def row_documents(
    path: Path, label: str, facts: Mapping[str, Any], columns: Mapping[str, str]
) -> Iterator[Document | Skip]:
    """The documents of a file of rows."""
    place = "the beginning"
    try:
        rows = _TABLES.get(path.suffix, _json_rows)(path)
        for place, row in rows:
            if isinstance(row, Skip):
                yield row
            elif not isinstance(row, dict):
                yield Skip("not_a_row", place)
            else:
                yield row_document(row, place, label, facts, columns)
    except TooLargeError as error:
        yield Skip("file_too_large", f"{path.name}, after {place}", str(error))
    except DAMAGE as error:
        yield damaged("file", f"{path.name}, after {place}", error)


def _json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    with unpacked(path) as stream:
        # UTF-16 and UTF-32 by their mark or by the zeros of their first characters, as JSON's
        # first ones are ASCII. Line by line, each would be guessed again and most be lost.
        encoding = json.detect_encoding(stream.peek(4)[:4])
        lines, end = cast("tuple[Any, Any]", (stream, b"\n"))
        if not encoding.startswith("utf-8"):
            lines, end = io.TextIOWrapper(stream, encoding, "surrogatepass", newline="\n"), "\n"
        number = 0
        while line := lines.readline(_LONGEST_LINE):
            number += 1
            place = f"line {number}"
            if len(line) == _LONGEST_LINE and not line.endswith(end):
                while line and not line.endswith(end):
                    line = lines.readline(_LONGEST_LINE)
                yield place, Skip("line_too_long", place, f"over {_LONGEST_LINE} bytes")
            elif line.strip():
                try:
                    yield place, json.loads(line if lines is stream else line.lstrip("\ufeff"))
                except (ValueError, RecursionError, MemoryError) as error:
                    yield place, Skip("not_json", place, str(error)[:200])


def _parquet_rows(path: Path) -> Iterator[tuple[str, Any]]:
    with pq.ParquetFile(path) as file:
        yield from _numbered(file.iter_batches(batch_size=_BATCH))


def _arrow_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Rows of a file of datasets, in its cache or saved by it."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        cut = (batch.slice(n, _BATCH) for batch in stream for n in range(0, len(batch), _BATCH))
        yield from _numbered(cut)


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, Any]]:
    rows = (row for batch in batches for row in batch.to_pylist())
    return ((f"row {number}", row) for number, row in enumerate(rows, 1))


_TABLES = {".parquet": _parquet_rows, ".arrow": _arrow_rows}
"""Readers of tables by the end of a file's name."""


def row_columns(columns: Mapping[str, str]) -> set[str]:
    """The columns that documents are made of; ``columns`` has those of some fields."""
    return {name for names in _NAMES.values() for name in names} | set(columns.values())


def row_document(
    row: Mapping[str, Any],
    place: str,
    label: str,
    facts: Mapping[str, Any],
    columns: Mapping[str, str],
) -> Document | Skip:
    """The document of a row at ``place``; the other arguments are those of ``row_documents``."""
    fields = dict(facts)
    for name, value in _fields(row, columns):
        try:
            fields[name] = _typed(name, value)
        except (ValueError, OverflowError) as error:
            column = f" (column {columns[name]})" if name in columns else ""
            return Skip("bad_field", place, f"{name}{column}: {error}"[:200])
    text = fields.pop("text", None)
    if text is None:
        return Skip("no_text", place, f"the row has {', '.join(map(repr, row))}"[:200])
    if wrong := _unfit(text):
        return Skip(wrong, place)
    name, ext, given = (fields.pop(each, "") for each in ("filename", "ext", "id"))
    path = fields.setdefault("path", ".".join(filter(None, (name, ext))) if name else given)
    spoken = fields.get("natural_language", "")
    if spoken not in _SPOKEN and language_named(spoken).doc_type is not DocType.UNKNOWN:
        fields.setdefault("language", fields.pop("natural_language"))
    spelt = fields.get("language")
    language = language_named(spelt) if spelt else language_of_path(path)
    if language is UNKNOWN:
        language = language_of_path(f".{ext}")
    fields["language"] = language.name
    fields.setdefault("doc_type", language.doc_type)
    if not given:
        repo = fields.get("repo", "") if fields.get("repo") != facts.get("repo") else ""
        path = path or hashlib.sha256(text.encode()).hexdigest()[:16]
        given = "/".join(filter(None, (label, repo, path)))
    return Document.of(text, **{"source": label} | fields, id=given)


def _fields(row: Mapping[str, Any], columns: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for field, names in _NAMES.items():
        given = columns.get(field)
        for name in (given,) if given else names:
            if row.get(name) is not None:
                yield field, row[name]
                break


def _typed(name: str, value: Any) -> Any:
    """A field's value as a document has it."""
    if name == "commit_time" and isinstance(value, str | datetime.date):
        moment = datetime.datetime.fromisoformat(str(value))
        zone = moment.tzinfo or datetime.UTC
        value = int(moment.replace(tzinfo=zone).timestamp())
    if name in _NUMBERS:
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise _wrong("a number of at least 0", value)
        return value
    if name == "licence":
        value = _choice(value)
    if isinstance(value, int) and not isinstance(value, bool) and name == "id":
        value = str(value)
    if not isinstance(value, str):
        raise _wrong("text", value)
    if name == "doc_type":
        if value not in [*DocType]:
            raise _wrong(f"one of {', '.join(DocType)}", value)
        return DocType(value)
    if name != "text":  # which has reasons of its own
        value.encode()  # half of a surrogate pair is a ValueError
    return value


def _wrong(allowed: str, value: Any) -> ValueError:
    return ValueError(f"it must be {allowed}, got {type(value).__name__} {value!r:.80}")


def _choice(value: Any) -> Any:
    """A list of licences, also one written as a text, as the choice that it is: A OR B.

    An object is a licence as GitHub describes it. Of a list with anything else none is known.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value.replace("'", '"'))
        except (ValueError, RecursionError):
            return value
    if not isinstance(value, list | dict):
        return value
    items = value if isinstance(value, list) else [value]
    named: list[Any] = [each.get("spdx_id") if isinstance(each, dict) else each for each in items]
    if not all(each is None or isinstance(each, str) for each in named):
        return ""
    named = [*dict.fromkeys(filter(None, named))]
    return " OR ".join(f"({each})" if " " in each and named[1:] else each for each in named)


def _unfit(text: str) -> str:
    """Why a text cannot be a document's, or ''."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "undecodable"
    if "\0" in text:
        return "binary"
    return "oversized" if size > LARGEST else ""
