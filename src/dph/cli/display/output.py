"""What goes to stdout: one JSON document, or text."""

import io
import json
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

_WIDEST = 400


def json_text(value: Any) -> str:
    """One JSON document; NaN is refused."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def table_text(table: "Table") -> str:
    """A table at its natural width: a narrow terminal or a file must not cut numbers off."""
    from rich.console import Console

    caption, table.caption = table.caption, None  # rich would wrap it at the table's width
    stream = io.StringIO()
    Console(file=stream, width=_WIDEST, highlight=False, no_color=True).print(table)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    return f"{text}\n\n{caption}" if caption else text
