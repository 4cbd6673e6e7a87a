"""Methods that trained longer or shorter than the reference, beside one like it of that length."""

from collections.abc import Iterator

from dph.lab.study.row_files import RowFile
from dph.lab.study.settings import BASE
from dph.lab.study.tables import Report, differences_table
from dph.results.charts.text_table import Table


def length_tables(report: Report) -> Iterator[Table]:
    """A table for each world and length that the reference was trained for too."""
    for world in report.results.worlds:
        for like, as_long in references_of_other_lengths(report, world).items():
            if len(as_long) > 1:
                yield differences_table(report, world, like, as_long)


def references_of_other_lengths(report: Report, world: str) -> dict[str, list[str]]:
    """What differs from the reference in its length alone, the shortest first.

    Each with all labels of its length, itself among them.
    """
    labels = [label for label in report.results.labels(world) if label != BASE]
    methods = {label: _a_row(report, world, label) for label in labels}
    usual = methods.get(report.reference)
    if usual is None:
        return {}
    found = {}
    for steps in sorted({row.steps for row in methods.values()} - {usual.steps}):
        as_long = [label for label in labels if methods[label].steps == steps]
        like = [label for label in as_long if _is_like(methods[label], usual)]
        if like:
            found[like[0]] = as_long
    return found


def _a_row(report: Report, world: str, label: str) -> RowFile:
    """Any of a method's finished runs: all have its settings."""
    return next(iter(report.results.rows(world, label).values()))


def _is_like(row: RowFile, usual: RowFile) -> bool:
    """Whether a run differs from the reference's in its length alone."""
    settings = ("method", "strength", "learning_rate", "interpolate")
    return all(getattr(row, name) == getattr(usual, name) for name in settings)
