"""Output on stdout: one JSON document, or text."""

import io
import json
import os
import shutil
import sys
import textwrap
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


# Keeping the libraries below from talking over our own output.


def quiet_libraries() -> None:
    """Silence progress bars and advice of transformers and torch, for this process."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", module=r"(torch|transformers|huggingface_hub)(\.|$)")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


_WIDEST = 400
_NARROWEST = 20
"""Columns below which nothing is narrowed further."""


def json_text(value: Any) -> str:
    """One JSON document; NaN is refused."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None of a file or a pipe, which have none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(text: str, width: int | None, *, indent: str = "") -> str:
    """Text in lines of at most ``width`` columns, each after ``indent``; None: in one line.

    >>> print(wrapped("more than two draws of one model", 20, indent="  "))
      more than two
      draws of one model
    """
    whole = f"{indent}{text}"
    if width is None or len(whole) <= width:
        return whole
    width = max(width, _NARROWEST)
    wrapper = textwrap.TextWrapper(
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return wrapper.fill(text)


def table_text(table: "Table", *, width: int | None = None) -> str:
    """A table at its natural width: a narrow terminal or a file must not cut numbers off.

    With a ``width`` a wider one has its cells and titles in several lines between words; where
    even that is too wide, each row is a list of titles and cells.
    """
    caption, table.caption = table.caption, None  # rich would wrap it at the table's width
    text = _printed(table)
    longest = max(map(len, text.splitlines()), default=0)
    if width is not None and longest > width:
        text = _narrowed(table, longest - width) or _as_lists(table, width)
    return f"{text}\n\n{wrapped(str(caption), width)}" if caption else text


def _narrowed(table: "Table", by: int) -> str | None:
    """The table with its widest columns narrowed; None where words would be broken."""
    texts = [[str(cell) for cell in (column.header, *column.cells)] for column in table.columns]
    widths = [max(map(len, column)) for column in texts]
    words = [max(len(word) for cell in column for word in [*cell.split(), ""]) for column in texts]
    for _ in range(by):
        free = [i for i, wide in enumerate(widths) if wide > words[i]]
        if not free:
            return None
        widths[max(free, key=widths.__getitem__)] -= 1
    for column, wide in zip(table.columns, widths, strict=True):
        column.no_wrap, column.width = False, wide
    return _printed(table)


def _as_lists(table: "Table", width: int) -> str:
    titles = [str(column.header) for column in table.columns]
    rows = zip(*(map(str, column.cells) for column in table.columns), strict=True)
    lists = (
        [wrapped(f"{title} {cell}".strip(), width) for title, cell in zip(titles, row, strict=True)]
        for row in rows
    )
    return "\n\n".join("\n".join(filter(None, lines)) for lines in lists)


def _printed(table: "Table") -> str:
    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=_WIDEST, highlight=False, no_color=True).print(table)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return textwrap.dedent("\n".join(lines)).strip("\n")
