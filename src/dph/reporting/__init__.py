"""What was measured, as tables and pictures."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.reporting.aggregate import aggregate_summaries
    from dph.reporting.figures import draw_quickstart
    from dph.reporting.tables import (
        comparison_table,
        differences_table,
        evaluation_table,
        markdown_table,
    )

__all__ = [
    "aggregate_summaries",
    "comparison_table",
    "differences_table",
    "draw_quickstart",
    "evaluation_table",
    "markdown_table",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "aggregate_summaries": "dph.reporting.aggregate",
        "comparison_table": "dph.reporting.tables",
        "differences_table": "dph.reporting.tables",
        "draw_quickstart": "dph.reporting.figures",
        "evaluation_table": "dph.reporting.tables",
        "markdown_table": "dph.reporting.tables",
    },
)
