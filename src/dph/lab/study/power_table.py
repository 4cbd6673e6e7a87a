"""What a study's worlds can decide: how far its reference is from the base model."""

from dph.lab.study.length_tables import references_of_other_lengths
from dph.lab.study.results import POWER_SEEDS, Power, power
from dph.lab.study.tables import UNKNOWN, Report, metric_title, points, set_title
from dph.results.charts.text_table import Table


def power_table(report: Report) -> Table:
    """The distance in standard errors at 4 and at 10 seeds, at each length of the reference."""
    rows: list[tuple[str, ...]] = []
    for world in report.results.worlds:
        columns = [(of, metric) for of, metric in report.columns(world) if metric != "styles"]
        for label in (report.reference, *references_of_other_lengths(report, world)):
            rows += map(_row, power(report.results, world, label, columns))
    at = [f"SE at {seeds}" for seeds in POWER_SEEDS]
    over = [f"differences in SE at {seeds}" for seeds in POWER_SEEDS]
    return Table(
        name="power",
        title=f"What the worlds can decide: {report.reference} minus base",
        columns=("world", "method", "set", "of", "points", "SD between seeds", *at, *over, "seeds"),
        rows=tuple(rows),
        note=report.note(
            "Percentage points, paired by report seed; SE: standard error of the mean difference "
            "over so many seeds."
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
