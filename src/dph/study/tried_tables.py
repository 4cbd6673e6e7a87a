"""What was tried of each method, score by score, on the development seeds."""

from collections.abc import Iterator, Mapping, Sequence

from dph.reporting.text_table import Table
from dph.study.row_files import RowFile
from dph.study.tables import UNKNOWN, Report, metric_title, set_title
from dph.study.tried import mean_of, tried

_GRID = ("strength", "weight", "learning rate")


def tried_tables(report: Report, rows: Mapping[str, RowFile]) -> Iterator[Table]:
    """A table for each world: means over the development seeds, a row for each candidate."""
    for world in report.results.worlds:
        sets, metrics = report.sets(world), report.metrics(world)
        found = [
            (label, *map(_place, key), *(_cell(of, m, name) for name in sets for m in metrics))
            for label in report.study.labels
            for key, of in tried(report, rows, world, label).items()
        ]
        if found:
            titles = [f"{set_title(of)}: {metric_title(m)}" for of in sets for m in metrics]
            yield Table(
                name=f"tried-{world}",
                title=f"What was tried on {world}, on development seeds",
                columns=("method", *_GRID, *titles),
                rows=tuple(found),
                note=report.note("Means in per cent, styles as their effective number."),
            )


def _place(value: float) -> str:
    return f"{value:g}" if value else UNKNOWN


def _cell(rows: Sequence[RowFile], metric: str, of: str) -> str:
    mean = mean_of(rows, metric, [of])
    return UNKNOWN if mean is None else f"{mean if metric == 'styles' else 100 * mean:.1f}"
