"""Every table of a study, in the order in which they are printed and written."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from dph.lab.study.plan import DEVELOPMENT, known_value
from dph.lab.study.results import POWER_SEEDS, Power, SeedMean, power
from dph.lab.study.rows import RunRow
from dph.lab.study.settings import BASE
from dph.lab.study.tables import (
    UNKNOWN,
    Report,
    differences_table,
    estimate_cell,
    metric_title,
    number_cell,
    points,
    set_title,
    study_tables,
    titles,
)
from dph.results.charts.text_table import TextTable

# What was tried on the development seeds, candidate by candidate.


class Tried(NamedTuple):
    """A candidate's place on the axes of its grid; what has no grid is 0."""

    strength: float
    weight: float
    learning_rate: float


def tried(
    report: Report, rows: Mapping[str, RunRow], world: str, label: str
) -> dict[Tried, list[RunRow]]:
    """The finished runs of each candidate on the development seeds, the weakest first."""
    found: dict[Tried, list[RunRow]] = {}
    for run in report.plan.runs:
        at_home = run.variant.site.name == world and run.label == label
        if run.split == DEVELOPMENT and at_home and run.id in rows:
            row = rows[run.id]
            key = Tried(row.strength or 0.0, row.interpolate or 0.0, row.learning_rate or 0.0)
            found.setdefault(key, []).append(row)
    return dict(sorted(found.items()))


def mean_of(rows: Sequence[RunRow], metric: str, sets: Sequence[str]) -> float | None:
    """The mean of a metric over runs of which it is known; None where it is of none."""
    known = [value for row in rows if (value := known_value(row, metric, sets)) is not None]
    return fmean(known) if known else None


# What methods kept, what they gained, and what became of skills that no method trained.
#
# The paper's Table 2 (other tasks) and its rates of what was kept and gained, on a study's
# worlds.


def forgetting_tables(report: Report) -> Iterator[TextTable]:
    """Those of which something is known, for each world."""
    for world in report.results.worlds:
        if any(
            report.results.estimate(world, label, "keep", [of])
            for label in report.results.labels(world)
            for of in report.sets(world)
        ):
            yield retention_table(report, world)
        if set(report.results.sets(world)) - set(report.sets(world)):
            yield elsewhere_table(report, world)


def retention_table(report: Report, world: str) -> TextTable:
    """The shares of problems that were kept and gained against the base model."""
    columns = [(of, metric) for of in report.sets(world) for metric in ("keep", "explore")]
    return TextTable(
        name=f"retention-{world}",
        title=f"Kept and gained on {world}",
        columns=("method", *titles(columns)),
        rows=_rows(report, world, columns),
        note=report.note(
            "In per cent, with 95% t-intervals over report seeds. keep: of the problems that the "
            "base model mastered, those that the method masters; explore: of those that it never "
            "solved, those that the method solves. The base model's row compares two draws of it."
        ),
    )


def elsewhere_table(report: Report, world: str) -> TextTable:
    """Scores on the sets that the rule does not choose by: what no method was trained on."""
    main = report.sets(world)
    others = [of for of in report.results.sets(world) if of not in main]
    metrics = [metric for metric in report.metrics(world) if metric != "styles"]
    columns = [(of, metric) for of in others for metric in metrics]
    return TextTable(
        name=f"elsewhere-{world}",
        title=f"Tasks without RL training, on {world}",
        columns=("method", *titles(columns)),
        rows=_rows(report, world, columns),
        note=report.note("In per cent, with 95% t-intervals over report seeds."),
    )


def _rows(
    report: Report, world: str, columns: list[tuple[str, str]]
) -> tuple[tuple[str, ...], ...]:
    results = report.results
    return tuple(
        (
            label,
            *(
                estimate_cell(results.estimate(world, label, metric, [of]), metric)
                for of, metric in columns
            ),
        )
        for label in results.labels(world)
    )


# What was tried of each method, score by score, on the development seeds.

_GRID = ("strength", "weight", "learning rate")


def tried_tables(report: Report, rows: Mapping[str, RunRow]) -> Iterator[TextTable]:
    """A table for each world: means over the development seeds, a row for each candidate."""
    for world in report.results.worlds:
        columns = report.columns(world)
        found = [
            (label, *map(_place, key), *(_cell(runs, metric, of) for of, metric in columns))
            for label in report.study.labels
            for key, runs in tried(report, rows, world, label).items()
        ]
        if found:
            yield TextTable(
                name=f"tried-{world}",
                title=f"Candidates on {world}, on development seeds",
                columns=("method", *_GRID, *titles(columns)),
                rows=tuple(found),
                note=report.note("Means in per cent, styles as their effective number."),
            )


def _place(value: float) -> str:
    return number_cell(value or None)  # what has no grid is 0


def _cell(rows: Sequence[RunRow], metric: str, of: str) -> str:
    mean = mean_of(rows, metric, [of])
    return estimate_cell(None if mean is None else SeedMean(mean, None, len(rows)), metric)


# Methods that trained longer or shorter than the reference, beside one like it of that length.


def length_tables(report: Report) -> Iterator[TextTable]:
    """A table for each world and length that the reference was trained for too."""
    for world in report.results.worlds:
        for like, as_long in references_of_other_lengths(report, world).items():
            if len(as_long) > 1:
                yield differences_table(report, world, like, as_long)


def references_of_other_lengths(report: Report, world: str) -> dict[str, list[str]]:
    """Methods that differ from the reference only in their length, the shortest first.

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


def _a_row(report: Report, world: str, label: str) -> RunRow:
    """Any of a method's finished runs: all have its settings."""
    return next(iter(report.results.rows(world, label).values()))


def _is_like(row: RunRow, usual: RunRow) -> bool:
    """Whether a run differs from the reference's in its length alone."""
    settings = ("method", "strength", "learning_rate", "interpolate")
    return all(getattr(row, name) == getattr(usual, name) for name in settings)


# What a study's worlds can decide: how far its reference is from the base model.


def power_table(report: Report) -> TextTable:
    """The distance in standard errors at 4 and at 10 seeds, at each length of the reference."""
    rows: list[tuple[str, ...]] = []
    for world in report.results.worlds:
        columns = [(of, metric) for of, metric in report.columns(world) if metric != "styles"]
        for label in (report.reference, *references_of_other_lengths(report, world)):
            rows += map(_row, power(report.results, world, label, columns))
    at = [f"SE at {seeds}" for seeds in POWER_SEEDS]
    over = [f"differences in SE at {seeds}" for seeds in POWER_SEEDS]
    return TextTable(
        name="power",
        title=f"Statistical power of the worlds: {report.reference} minus base",
        columns=("world", "method", "set", "of", "points", "SD between seeds", *at, *over, "seeds"),
        rows=tuple(rows),
        note=report.note(
            "Percentage points, paired by report seed; SE: standard error of the mean difference "
            "over that number of seeds."
        ),
        left=4,
    )


def _row(found: Power) -> tuple[str, ...]:
    errors = [found.standard_error(seeds) for seeds in POWER_SEEDS]
    return (
        found.world,
        found.label,
        set_title(found.set),
        metric_title(found.metric),
        points(found.mean, None, found.metric),
        f"{100 * found.deviation:.1f}",
        *(f"{100 * error:.2f}" for error in errors),
        *(f"{abs(found.mean) / error:.1f}" if error > 0 else UNKNOWN for error in errors),
        str(found.seeds),
    )


def all_tables(report: Report, rows: Mapping[str, RunRow]) -> Iterator[TextTable]:
    """Those of which something is known."""
    yield from study_tables(report)
    yield from length_tables(report)
    if (found := power_table(report)).rows:
        yield found
    yield from forgetting_tables(report)
    yield from tried_tables(report, rows)
