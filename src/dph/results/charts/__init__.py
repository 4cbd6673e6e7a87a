"""Measurements as tables and pictures."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.results.charts.figures import draw_quickstart
    from dph.results.charts.tables import (
        comparison_table,
        differences_table,
        evaluation_table,
        markdown_table,
    )
    from dph.results.over_seeds import aggregate_summaries

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
        "aggregate_summaries": "dph.results.over_seeds",
        "comparison_table": "dph.results.charts.tables",
        "differences_table": "dph.results.charts.tables",
        "draw_quickstart": "dph.results.charts.figures",
        "evaluation_table": "dph.results.charts.tables",
        "markdown_table": "dph.results.charts.tables",
    },
)
