"""The rows of a text file: JSON lines, or CSV whose first line names the columns; also gzipped."""

import csv
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from dph.errors import DataError

_LONGEST_CELL = 2**31 - 1
"""The csv module stops at 131,072 characters by itself, which a response may have."""


def json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """The value of each line that is not blank, and where it stands.

    Raises:
        DataError: the file cannot be read, or a line is not JSON.
    """
    for number, line in json_lines(path):
        place = f"{path}, line {number}"
        try:
            yield place, json.loads(line)
        except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8, or too deep
            raise DataError(f"{place}: not valid JSON: {error}") from error


def json_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers.

    Raises:
        DataError: the file cannot be read.
    """
    with _opened(path) as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())


def csv_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row that is not blank by its columns, and where it begins. All values are text.

    Raises:
        DataError: the file cannot be read, names no columns or one twice, or a row has more or
            fewer fields than there are columns.
    """
    records = _csv_records(path)
    names = _header(path, records)
    for number, fields in records:
        place = f"{path}, line {number}"
        if len(fields) != len(names):
            raise DataError(
                f"{place}: the row has {len(fields)} fields, but there are {len(names)} columns: "
                f"{', '.join(names)}"
            )
        yield place, dict(zip(names, fields, strict=True))


def csv_header(path: Path) -> tuple[str, ...]:
    """The columns of a CSV file.

    Raises:
        DataError: the file cannot be read, or names no columns or one twice.
    """
    return _header(path, _csv_records(path))


def _header(path: Path, records: Iterator[tuple[int, Sequence[str]]]) -> tuple[str, ...]:
    _, names = next(records, (0, ()))
    if not all(names) or not names:
        raise DataError(f"{path}: the first line of a CSV file names its columns, got {[*names]}")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{path} has the column {', '.join(map(repr, twice))} more than once")
    return tuple(names)


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of each record that is not blank, and the line where it begins."""
    csv.field_size_limit(_LONGEST_CELL)
    start = 1
    with _opened(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            for fields in reader:
                if fields:
                    yield start, fields
                start = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}, line {start}: not valid CSV: {error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    """The file's bytes, unpacked; what the system or gzip refuses is a DataError."""
    try:
        with path.open("rb") as file:
            yield gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
    except gzip.BadGzipFile as error:
        raise DataError(f"cannot read {path} as gzip: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}, it is cut off or damaged: {error}") from error
