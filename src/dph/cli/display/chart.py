"""A bar chart of plain characters."""

from collections.abc import Sequence

BAR_WIDTH = 40


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
