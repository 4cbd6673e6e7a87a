"""Tables of a study whose models answered at several temperatures: each at its own best one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dph.results.charts.text_table import TextTable
from lab.study.report import Report, estimate_cell, points, titles
from lab.study.results import grid_place, mean_of, paired_by_seed
from lab.study.rows import RunRow
from lab.study.settings import at_temperature, metric_names, metric_parts

Temperature = float | None
"""None: that of the evaluation."""


def at(metric: str, temperature: Temperature) -> str:
    """The metric of answers at a temperature; what has one or does not depend on it is as it is.

    >>> at("greedy + pass@16", 0.7), at("greedy + pass@16", None)
    ('greedy + pass@16 at 0.7', 'greedy + pass@16')
    """
    if temperature is None:
        return metric
    return " + ".join(
        at_temperature(name, temperature) if _depends_on_temperature(name) else name
        for name in metric_names(metric)
    )


def _depends_on_temperature(metric: str) -> bool:
    name, k, temperature = metric_parts(metric)
    return temperature is None and (name == "mean" or k is not None)


def temperature_tables(report: Report) -> Iterator[TextTable]:
    """For each world the scores at those temperatures, and the differences to the reference."""
    for world in report.results.worlds if report.study.file.budget.temperatures else ():
        best = best_temperatures(report, world)
        tables = _Tables(report, world, best)
        if best:
            yield tables.scores()
        if report.reference in best:
            yield tables.differences()


def best_temperatures(report: Report, world: str) -> dict[str, Temperature]:
    """By label, the one with the rule's best score on the development seeds, of equals the first.

    Without labels whose chosen candidate was not scored there at every temperature.
    """
    rule = report.study.rule.choose
    sets = rule.sets or report.results.sets(world)
    tried = (None, *report.study.file.budget.temperatures)
    best: dict[str, Temperature] = {}
    for label in report.results.labels(world):
        rows = _development_rows(report, world, label)
        scores = [mean_of(rows, at(rule.metric, temperature), sets) for temperature in tried]
        known = [score for score in scores if score is not None]
        if len(known) == len(scores):
            best[label] = tried[known.index(max(known))]
    return best


def _development_rows(report: Report, world: str, label: str) -> Sequence[RunRow]:
    """The runs of the chosen candidate; those of the method it follows where it has none."""
    tried = report.results.tried(world, label)
    if not tried:
        method = next((m for m in report.study.file.methods if m.label == label), None)
        followed = method and method.follows
        return _development_rows(report, world, followed) if followed else []
    reported = next(iter(report.results.rows(world, label).values()), None)
    return tried.get(grid_place(reported), []) if reported else []


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of a world; ``best`` are temperatures by label."""

    report: Report
    world: str
    best: Mapping[str, Temperature]

    def scores(self) -> TextTable:
        def cell(label: str, of: str, metric: str) -> str:
            asked = at(metric, self.best[label])
            return estimate_cell(
                self.report.results.estimate(self.world, label, asked, [of]), metric
            )

        return self._table(
            f"temperatures-{self.world}",
            f"Scores on {self.world}, each model at its own best temperature",
            self.best,
            cell,
            f"Temperatures with the best {self.report.study.rule.choose.metric} on the development "
            f"seeds, of the evaluation's own ({_name(None)}) and "
            f"{', '.join(map(_name, self.report.study.file.budget.temperatures))}. In per cent; "
            "means over the report seeds with 95% t-intervals.",
        )

    def differences(self) -> TextTable:
        reference = self.report.reference

        def cell(label: str, of: str, metric: str) -> str:
            a, b = (
                self.report.results.values(self.world, one, at(metric, self.best[one]), [of])
                for one in (label, reference)
            )
            return points(paired_by_seed(a, b), metric)

        return self._table(
            f"temperatures-{self.world}-differences",
            f"Minus {reference} of the same seed on {self.world}, each at its own temperature",
            (label for label in self.best if label != reference),
            cell,
            "In percentage points, with 95% t-intervals over seeds; not corrected.",
        )

    def _table(
        self,
        name: str,
        title: str,
        labels: Iterable[str],
        cell: Callable[[str, str, str], str],
        note: str,
    ) -> TextTable:
        columns = [c for c in self.report.columns(self.world) if _depends_on_temperature(c[1])]
        return TextTable(
            name=name,
            title=title,
            columns=("method", "temperature", *titles(columns)),
            rows=tuple(
                (label, _name(self.best[label]), *(cell(label, *column) for column in columns))
                for label in labels
            ),
            note=self.report.note(note),
        )


def _name(temperature: Temperature) -> str:
    return "usual" if temperature is None else f"{temperature:g}"
