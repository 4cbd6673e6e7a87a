"""Tables for a notebook: data frames, and markup in which every text is escaped."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from dph.errors import SettingsError

Frame = Any
"""A pandas DataFrame, or a pyarrow Table where ``arrow=True`` asked for it."""


def data_frame(table: pa.Table, *, arrow: bool) -> Frame:
    if arrow:
        return table
    try:
        return table.to_pandas()
    except ImportError as error:
        raise SettingsError(
            "a DataFrame needs pandas (`pip install pandas`); arrow=True gives a pyarrow Table"
        ) from error


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts, each escaped: names, ids and answers may be a stranger's.

    >>> html_table(["run"], [["<b>"]])
    '<table><thead><tr><th>run</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    body = "".join(_line(row, "td") for row in rows)
    return f"<table><thead>{_line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _line(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
