"""Plain text tables and charts, the same on a terminal and in a file."""

import json
from collections.abc import Sequence
from typing import Any

BAR_WIDTH = 40


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right.

    >>> print(text_table(["set", "mean"], [["dev", "0.50"], ["test", "0.5"]]))
    set   mean
    dev   0.50
    test   0.5
    """
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def bar_chart(labels: Sequence[str], counts: Sequence[int]) -> str:
    """A horizontal bar for each count; anything above zero is visible.

    >>> print(bar_chart(["0", "1"], [40, 1]))
    0  40 ########################################
    1   1 #
    """
    widest, largest = max(map(len, labels), default=0), max([*counts, 1])
    digits = len(str(largest))
    bars = ["#" * -(-count * BAR_WIDTH // max(largest, BAR_WIDTH)) for count in counts]
    return "\n".join(
        f"{label.rjust(widest)}  {count:{digits}d} {bar}".rstrip()
        for label, count, bar in zip(labels, counts, bars, strict=True)
    )


def json_text(value: Any) -> str:
    """One JSON document; NaN is refused."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
