"""Tables of a study whose models answered at several temperatures: each at its own best one."""

from collections.abc import Iterator, Mapping, Sequence

from dph.lab.study.report import Report, estimate_cell, points, titles
from dph.lab.study.results import grid_place, mean_of
from dph.lab.study.rows import RunRow
from dph.lab.study.settings import AT, metric_names
from dph.results.charts.text_table import UNKNOWN, TextTable
from dph.results.over_seeds import paired_t

Temperature = float | None
"""None: that of the evaluation."""


def at(metric: str, temperature: Temperature) -> str:
    """The metric of answers at a temperature; what has one or does not depend on it is as it is.

    >>> at("greedy + pass@16", 0.7), at("greedy + pass@16", None)
    ('greedy + pass@16 at 0.7', 'greedy + pass@16')
    """
    names = metric_names(metric)
    if temperature is not None:
        names = tuple(
            f"{name}{AT}{temperature:g}" if _depends_on_temperature(name) else name
            for name in names
        )
    return " + ".join(names)


def _depends_on_temperature(name: str) -> bool:
    return AT not in name and (name == "mean" or "@" in name)


def temperature_tables(report: Report) -> Iterator[TextTable]:
    """For each world the scores at those temperatures, and the differences to the reference."""
    for world in report.results.worlds if report.study.file.budget.temperatures else ():
        best = {
            label: found[0]
            for label in report.results.labels(world)
            if (found := best_temperature(report, world, label))
        }
        if not best:
            continue
        columns = [
            (of, metric)
            for of in report.sets(world)
            for metric in report.metrics(world)
            if _depends_on_temperature(metric)
        ]
        yield _scores(report, world, best, columns)
        if report.reference in best:
            yield _differences(report, world, best, columns)


def best_temperature(report: Report, world: str, label: str) -> tuple[Temperature] | None:
    """The one with the best score of the rule on the development seeds, of equals the first.

    None where the chosen candidate was not scored there at every temperature.
    """
    rows = _development_rows(report, world, label)
    rule = report.study.rule.choose
    sets = rule.sets or report.results.sets(world)
    all_of_them = (None, *report.study.file.budget.temperatures)
    scores = [mean_of(rows, at(rule.metric, t), sets) for t in all_of_them]
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        return None
    return (all_of_them[known.index(max(known))],)


def _development_rows(report: Report, world: str, label: str) -> Sequence[RunRow]:
    """The runs of the chosen candidate; those of the method it follows where it has none."""
    tried = report.results.tried(world, label)
    if not tried:
        method = next((m for m in report.study.file.methods if m.label == label), None)
        followed = method and method.follows
        return _development_rows(report, world, followed) if followed else []
    reported = next(iter(report.results.rows(world, label).values()), None)
    return tried.get(grid_place(reported), []) if reported else []


def _scores(
    report: Report,
    world: str,
    best: Mapping[str, Temperature],
    columns: Sequence[tuple[str, str]],
) -> TextTable:
    rows = []
    for label, temperature in best.items():
        cells = (
            estimate_cell(report.results.estimate(world, label, at(m, temperature), [of]), m)
            for of, m in columns
        )
        rows.append((label, _name(temperature), *cells))
    return TextTable(
        name=f"temperatures-{world}",
        title=f"Scores on {world}, each model at its own best temperature",
        columns=("method", "temperature", *titles(columns)),
        rows=tuple(rows),
        note=report.note(
            f"Temperatures with the best {report.study.rule.choose.metric} on the development "
            f"seeds, of the evaluation's own ({_name(None)}) and "
            f"{', '.join(map(_name, report.study.file.budget.temperatures))}. In per cent; means "
            "over the report seeds with 95% t-intervals."
        ),
    )


def _differences(
    report: Report,
    world: str,
    best: Mapping[str, Temperature],
    columns: Sequence[tuple[str, str]],
) -> TextTable:
    def difference(label: str, of: str, metric: str) -> str:
        a, b = (
            report.results.values(world, one, at(metric, best[one]), [of])
            for one in (label, report.reference)
        )
        seeds = sorted(a.keys() & b.keys())
        if not seeds:
            return UNKNOWN
        return points(paired_t([a[s] for s in seeds], [b[s] for s in seeds]), metric)

    return TextTable(
        name=f"temperatures-{world}-differences",
        title=f"Minus {report.reference} of the same seed on {world}, each at its own temperature",
        columns=("method", "temperature", *titles(columns)),
        rows=tuple(
            (label, _name(best[label]), *(difference(label, *column) for column in columns))
            for label in best
            if label != report.reference
        ),
        note=report.note("In percentage points, with 95% t-intervals over seeds; not corrected."),
    )


def _name(temperature: Temperature) -> str:
    return "usual" if temperature is None else f"{temperature:g}"
