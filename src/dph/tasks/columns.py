"""Rows whose columns have other names than the fields of problems."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dph.errors import DataError


def renamed(
    rows: Iterable[tuple[str, Any]], columns: Mapping[str, str]
) -> Iterator[tuple[str, Any]]:
    """Rows with the fields that ``columns`` names, each with its place in the file.

    ``{"prompt": "question"}`` takes the prompt from the column ``question``, which is not there
    any more under its own name, unless a field is called so; what else was called ``prompt`` is
    gone. Columns that are not named stay. A row without a ``problem_id`` gets its number in the
    file, from 1.

    Raises:
        DataError: a row lacks a column that is named.
    """
    for number, (place, row) in enumerate(rows, start=1):
        if not isinstance(row, dict):
            yield place, row  # refused, with its value, where rows become problems
            continue
        for field, column in columns.items():
            if column not in row:
                there = ", ".join(map(str, row)) or "none"
                raise DataError(
                    f"{place}: there is no column {column!r}, which columns (of data, or of a set) "
                    f"names for {field}; there are: {there}"
                )
        taken = {field: row[column] for field, column in columns.items()}
        gone = {*columns, *columns.values()}
        others = {name: value for name, value in row.items() if name not in gone}
        yield place, {"problem_id": number, **others, **taken}
