"""What methods kept, what they gained, and what became of skills that no method trained.

The paper's Table 2 (other tasks) and its rates of what was kept and gained, on a study's worlds.
"""

from collections.abc import Iterator

from dph.lab.study.tables import Report, estimate_cell, titles
from dph.results.charts.text_table import Table


def forgetting_tables(report: Report) -> Iterator[Table]:
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


def retention_table(report: Report, world: str) -> Table:
    """The shares of problems that were kept and gained against the base model."""
    columns = [(of, metric) for of in report.sets(world) for metric in ("keep", "explore")]
    return Table(
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


def elsewhere_table(report: Report, world: str) -> Table:
    """Scores on the sets that the rule does not choose by: what no method was trained on."""
    main = report.sets(world)
    others = [of for of in report.results.sets(world) if of not in main]
    metrics = [metric for metric in report.metrics(world) if metric != "styles"]
    columns = [(of, metric) for of in others for metric in metrics]
    return Table(
        name=f"elsewhere-{world}",
        title=f"What RL never trained, on {world}",
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
