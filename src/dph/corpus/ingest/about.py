"""Facts on sources that no file of theirs tells: stars, licence, when they were last changed."""

from pathlib import Path
from typing import Any

from dph._base.files.rows import read_rows
from dph.errors import DataError

_TEXTS, _NUMBERS = ("repo", "licence", "url", "natural_language"), ("stars", "commit_time")


def about_sources(path: Path) -> dict[str, dict[str, Any]]:
    """For each ``source`` (the label of an input) the fields that its documents share.

    Raises:
        DataError: the file cannot be read, or a row names no source, or a field that it cannot.
    """
    found: dict[str, dict[str, Any]] = {}
    for place, row in read_rows(path):
        if not isinstance(row, dict) or not isinstance(row.get("source"), str):
            raise DataError(f"{place}: a row names a source, got {row!r:.80}")
        if unknown := sorted(set(row) - {"source", *_TEXTS, *_NUMBERS}):
            allowed = ", ".join((*_TEXTS, *_NUMBERS))
            raise DataError(f"{place}: {unknown[0]!r} is not one of source, {allowed}")
        if row["source"] in found:
            raise DataError(f"{place}: {row['source']!r} is there twice")
        found[row["source"]] = {
            name: _field(name, value, place)
            for name, value in row.items()
            if name != "source" and value not in (None, "")
        }
    return found


def _field(name: str, value: Any, place: str) -> Any:
    if name in _NUMBERS:
        if str(value).isdigit():
            return int(value)
        raise DataError(f"{place}: {name} must be a number of at least 0, got {value!r:.80}")
    if not isinstance(value, str):
        raise DataError(f"{place}: {name} must be text, got {value!r:.80}")
    return value
