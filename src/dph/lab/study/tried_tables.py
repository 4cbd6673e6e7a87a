"""What was tried of each method, score by score, on the development seeds."""

from collections.abc import Iterator, Mapping, Sequence

from dph.lab.study.results import Estimate
from dph.lab.study.row_files import RowFile
from dph.lab.study.tables import Report, estimate_cell, number_cell, titles
from dph.lab.study.tried import mean_of, tried
from dph.results.charts.text_table import Table

_GRID = ("strength", "weight", "learning rate")


def tried_tables(report: Report, rows: Mapping[str, RowFile]) -> Iterator[Table]:
    """A table for each world: means over the development seeds, a row for each candidate."""
    for world in report.results.worlds:
        columns = report.columns(world)
        found = [
            (label, *map(_place, key), *(_cell(runs, metric, of) for of, metric in columns))
            for label in report.study.labels
            for key, runs in tried(report, rows, world, label).items()
        ]
        if found:
            yield Table(
                name=f"tried-{world}",
                title=f"What was tried on {world}, on development seeds",
                columns=("method", *_GRID, *titles(columns)),
                rows=tuple(found),
                note=report.note("Means in per cent, styles as their effective number."),
            )


def _place(value: float) -> str:
    return number_cell(value or None)  # what has no grid is 0


def _cell(rows: Sequence[RowFile], metric: str, of: str) -> str:
    mean = mean_of(rows, metric, [of])
    return estimate_cell(None if mean is None else Estimate(mean, None, len(rows)), metric)
