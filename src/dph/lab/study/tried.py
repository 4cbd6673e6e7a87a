"""What was tried on the development seeds, candidate by candidate."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from dph.lab.study.plan import DEVELOPMENT
from dph.lab.study.rows import RowFile
from dph.lab.study.tables import Report
from dph.lab.study.choice import known_value


class Tried(NamedTuple):
    """A candidate's place on the axes of its grid; what has no grid is 0."""

    strength: float
    weight: float
    learning_rate: float


def tried(
    report: Report, rows: Mapping[str, RowFile], world: str, label: str
) -> dict[Tried, list[RowFile]]:
    """The finished runs of each candidate on the development seeds, the weakest first."""
    found: dict[Tried, list[RowFile]] = {}
    for run in report.plan.runs:
        at_home = run.variant.site.name == world and run.label == label
        if run.split == DEVELOPMENT and at_home and run.id in rows:
            row = rows[run.id]
            key = Tried(row.strength or 0.0, row.interpolate or 0.0, row.learning_rate or 0.0)
            found.setdefault(key, []).append(row)
    return dict(sorted(found.items()))


def mean_of(rows: Sequence[RowFile], metric: str, sets: Sequence[str]) -> float | None:
    """The mean of a metric over runs of which it is known; None where it is of none."""
    known = [value for row in rows if (value := known_value(row, metric, sets)) is not None]
    return fmean(known) if known else None
