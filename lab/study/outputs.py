"""Files of a study next to its rows: study.parquet, costs.jsonl, report.json, tables, figures."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dph._base.files import atomic_file, make_directory, write_json, write_text
from dph.results.charts.figures import save_figure
from dph.results.charts.palette import Look, looks_by_method
from dph.results.charts.panels import (
    HEIGHT,
    ROW_HEIGHT,
    draw_dots,
    draw_pass_at_k,
    draw_point,
    draw_strengths,
    light_grid,
    panel_grid,
    title,
)
from dph.results.charts.text_table import FORMATS
from dph.results.over_seeds import seed_summary
from dph.results.vocabulary import (
    PLAIN,
    method_label,
    metric_axis,
    metric_title,
    set_label,
)
from lab.study.costs import write_costs
from lab.study.plan import Choice, Plan
from lab.study.report import Report
from lab.study.results import Results, compared, mean_of, planned_rows
from lab.study.rows import COLUMNS, OF_RUN, OF_SCORE, SCHEMA, Places, RunRow, row_path
from lab.study.rule_lock import RuleLock, choices_document, write_lock
from lab.study.settings import BASE, Study
from lab.study.tables import all_tables

# The pictures of a study: a panel for each set of each world, and one legend for all of them.

OTHERS = "other methods"
_GREY = Look("#BDBDBD", "o")
Panel = Callable[[Axes, str, str], None]
"""Draws what a world (second) shows on a set (third)."""


def study_metric(metric: str) -> str:
    """Name in a study of a metric of evaluation.json.

    >>> study_metric("pass_at_16"), study_metric("effective_styles"), study_metric("keep")
    ('pass@16', 'styles', 'keep')
    """
    return metric.replace("pass_at_", "pass@").replace("effective_styles", "styles")


def summary_over_seeds(report: Report, world: str, label: str, of: str) -> dict[str, Any]:
    """Means over the report seeds, with intervals over seeds, in the form of evaluation.json."""
    metrics = (*PLAIN, *(f"pass_at_{k}" for k in report.results.ks(world)))
    values = {
        metric: list(report.results.values(world, label, study_metric(metric), [of]).values())
        for metric in metrics
    }
    return seed_summary({m: found for m, found in values.items() if found or m in PLAIN})


@dataclass(frozen=True, kw_only=True)
class StudyPictures:
    """The pictures of a report's methods; a label that the study does not show is grey."""

    report: Report

    @cached_property
    def looks(self) -> dict[str, Look]:
        """The look of every label: that of its method where no label before it has the same."""
        report = self.report
        shown = {label for world in report.results.worlds for label in report.shown(world)}
        methods = {m.label: m.name for m in report.study.file.methods if m.label in shown}
        found = looks_by_method({BASE: BASE, **methods})
        return {label: found.get(label, _GREY) for label in report.results.all_labels()}

    def legend_label(self, world: str, label: str) -> str:
        """Name of a label in a legend; all that are not shown have one entry."""
        return method_label(label) if label in self.report.shown(world) else OTHERS

    def write(self, directory: Path) -> list[Path]:
        """Draw every picture of which something is known, by the names that docs/study.md has."""
        dots = 1.2 + ROW_HEIGHT * len(self.report.results.all_labels())
        paths = []
        for name, (panel, height) in self._panels(dots):
            paths.append(directory / name)
            save_figure(paths[-1], partial(self._figure, panel, height))
        return paths

    def _panels(self, dots: float) -> Iterator[tuple[str, tuple[Panel, float]]]:
        """By file, what draws a panel, and its height in inches."""
        for metric in ("greedy", "mean"):
            yield f"fronts_{metric}.png", (partial(self._front, metric=metric), HEIGHT)
        yield "pass_at_k.png", (self._curves, HEIGHT)
        if self._knows("effective_styles"):
            yield "styles.png", (self._styles, dots)
        if self._knows("keep", "explore"):
            yield "retention.png", (self._retention, dots)
        if any(len(self._strengths(world, label)) > 1 for world, label in self._shown()):
            yield "strengths.png", (self._tried, HEIGHT)

    def _figure(self, draw: Panel, height: float) -> Figure:
        def panel(world: str, of: str, axes: Axes) -> None:
            draw(axes, world, of)

        rows = [
            [partial(panel, world, of) for of in self.report.sets(world)]
            for world in self.report.results.worlds
        ]
        return panel_grid(rows, height=height)

    def _shown(self) -> Iterator[tuple[str, str]]:
        for world in self.report.results.worlds:
            yield from ((world, label) for label in self.report.shown(world))

    def _knows(self, *metrics: str) -> bool:
        results = self.report.results
        return any(
            results.values(world, label, study_metric(metric), [of])
            for world in results.worlds
            for label in results.labels(world)
            for of in self.report.sets(world)
            for metric in metrics
        )

    def _many(self, world: str) -> str:
        """The metric of many tries: Pass@k of the k that tables show, else the mean."""
        metrics = self.report.metrics(world)
        found = next((metric for metric in metrics if metric.startswith("pass@")), "mean")
        return found.replace("pass@", "pass_at_")

    # The paper's Figure 3, and its Figures 2 and 4 as numbers with intervals.

    def _curves(self, axes: Axes, world: str, of: str) -> None:
        labels = self.report.shown(world)
        models = {label: summary_over_seeds(self.report, world, label, of) for label in labels}
        draw_pass_at_k(axes, models, self.looks)
        _title(axes, world, of, "means over report seeds; bands: 95% t-intervals")

    def _styles(self, axes: Axes, world: str, of: str) -> None:
        self._dots(axes, world, of, ("effective_styles",))
        _title(axes, world, of, "effective number of styles; bars: 95% over report seeds")

    def _retention(self, axes: Axes, world: str, of: str) -> None:
        self._dots(axes, world, of, ("keep", "explore"))
        _title(axes, world, of, "kept (filled) and gained; bars: 95% over report seeds")

    def _dots(self, axes: Axes, world: str, of: str, metrics: tuple[str, ...]) -> None:
        labels = self.report.results.labels(world)
        models = {label: summary_over_seeds(self.report, world, label, of) for label in labels}
        draw_dots(axes, models, metrics, self.looks)

    # What a method's strength does, on the development seeds (the paper's ablation of eta).

    def _tried(self, axes: Axes, world: str, of: str) -> None:
        metrics = ("greedy", self._many(world))
        lines = {
            label: points
            for label in self.report.shown(world)
            if len(points := self._strengths(world, label, of, metrics)) > 1
        }
        draw_strengths(axes, lines, metrics, self.looks)
        detail = f"greedy (solid), {metric_title(metrics[1])} (dashed); development seeds"
        _title(axes, world, of, detail)

    def _strengths(
        self, world: str, label: str, of: str = "", metrics: tuple[str, ...] = ()
    ) -> dict[float, dict[str, Any]]:
        """Means over development seeds by strength above 0; nothing is tested on them."""
        tried = self.report.results.tried(world, label)
        return {
            place.strength: seed_summary(
                {m: [*_known(mean_of(rows, study_metric(m), [of]))] for m in metrics}
            )
            for place, rows in tried.items()
            if place.strength > 0
        }

    # Fronts: the first try against many tries, a point a method, a line over what was tried.

    def _front(self, axes: Axes, world: str, of: str, *, metric: str) -> None:
        pair = (metric, self._many(world))
        seeds, report = self.report.results.seeds, self.report
        for label in report.results.labels(world):
            shown = label in report.shown(world)
            if not shown and seeds(world, label) < seeds(world, report.reference):
                continue  # a grey dot has no bar that would tell how little is behind it
            look = self.looks[label]
            line = list(self._over_tried(world, label, of, pair)) if shown else []
            if len(line) > 1:
                axes.plot(
                    [x for x, _ in line], [y for _, y in line], color=look.colour, linewidth=1,
                    alpha=0.45, marker=".", markersize=4, zorder=2,
                )  # fmt: skip
            draw_point(
                axes,
                summary_over_seeds(report, world, label, of),
                pair,
                look,
                label=self.legend_label(world, label),
                faint=not shown,
            )
        axes.set(xlabel=metric_axis(pair[0]), ylabel=metric_axis(pair[1]))
        _title(axes, world, of, "marks: report seeds, 95%; lines: development seeds")
        light_grid(axes)

    def _over_tried(
        self, world: str, label: str, of: str, pair: tuple[str, str]
    ) -> Iterator[tuple[float, float]]:
        """Means over the development seeds, from the weakest candidate to the strongest."""
        for rows in self.report.results.tried(world, label).values():
            x, y = (mean_of(rows, study_metric(metric), [of]) for metric in pair)
            if x is not None and y is not None:
                yield 100 * x, 100 * y


def _known(value: float | None) -> Iterator[float]:
    if value is not None:
        yield value


def _title(axes: Axes, world: str, of: str, detail: str) -> None:
    title(axes, f"{world}, {set_label(of)}", detail)


# ``study.parquet``: every score of every finished run. The rows of a study: it goes on from them.
#
# The same rows give the same bytes, however often the study was killed.


def write_study(places: Places, plan: Plan, rows: Mapping[str, RunRow], lock: RuleLock) -> None:
    """Write the scores of all finished runs, sorted, with the rule's hash as metadata.

    A run has a row for each label that asks for it; one that the plan does not ask for (any more)
    stays, without a label. No time, no duration and no path is in it. Files of runs that the table
    now holds are removed.
    """
    metadata = {
        "dph.schema": str(SCHEMA),
        "dph.rule_sha256": lock.sha256,
        "dph.rule_replaces": ",".join(lock.replaces),
    }
    table = pa.Table.from_pylist(
        list(study_rows(plan, rows)), schema=COLUMNS.with_metadata(metadata)
    )
    with atomic_file(places.parquet) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    for run in rows:
        row_path(places.rows, run).unlink(missing_ok=True)


def study_rows(plan: Plan, rows: Mapping[str, RunRow]) -> Iterator[dict[str, Any]]:
    """A row for each score of each run and label, sorted by world, split, seed, label and run."""
    asked = {(run.id, run.label): run.split for run in plan.runs if run.id in rows}
    there = {run for run, _ in asked}
    named = [(rows[run], split, label) for (run, label), split in asked.items()]
    named += [(row, "", "") for run, row in rows.items() if run not in there]
    named.sort(key=lambda found: (found[0].world, found[1], found[0].seed, found[2], found[0].run))
    for row, split, label in named:
        of_run = {name: getattr(row, name) for name in OF_RUN}
        for score in row.scores:
            of_score = {name: getattr(score, name) for name in OF_SCORE}
            yield {**of_run, **of_score, "split": split or None, "label": label or None}


REPORT_SCHEMA = 1


def make_report(study: Study, plan: Plan, rows: Mapping[str, RunRow], lock: RuleLock) -> Report:
    """Data of tables, pictures and the document."""
    return Report(study=study, plan=plan, results=Results(planned_rows(plan, rows)), lock=lock)


def write_outputs(report: Report, places: Places, rows: Mapping[str, RunRow]) -> None:
    """Write everything anew from the rows; all but the costs is the same in every clone."""
    write_lock(report.study, places, report.lock, _reported(report))
    write_study(places, report.plan, rows, report.lock)
    write_costs(places, rows)
    write_json(places.report, report_document(report, rows))
    make_directory(places.tables)
    for table in all_tables(report):
        for suffix, write in FORMATS.values():
            write_text(places.tables / f"{table.name}.{suffix}", write(table))
    if report.results.worlds:
        StudyPictures(report=report).write(make_directory(places.figures))


def _reported(report: Report) -> dict[tuple[str, str], Choice]:
    """The choices that runs on report seeds rest on."""
    results = report.results
    return {key: c for key, c in report.plan.choices.items() if results.rows(*key)}


def report_document(report: Report, rows: Mapping[str, RunRow]) -> dict[str, Any]:
    """Choices, means and tests as one JSON document: fractions, not per cent."""
    ids = {run.id for run in report.plan.runs}
    return {
        "schema": REPORT_SCHEMA,
        "name": report.study.file.study.name,
        "rule_sha256": report.lock.sha256,
        "rule_replaces": list(report.lock.replaces),
        "runs": {"finished": len(ids & set(rows)), "total": report.plan.total},
        "choices": choices_document(report.plan.choices, report.study),
        "scores": list(_scores(report)),
        "comparisons": [
            {
                "world": found.world,
                **found.comparison.model_dump(mode="json"),
                "difference": found.difference.mean,
                "ci95": [found.difference.lo, found.difference.hi],
                "p": found.difference.p_value,
                "p_adjusted": found.adjusted,
                "seeds": found.difference.seeds,
            }
            for found in compared(report.results, report.study.rule)
        ],
    }


def _scores(report: Report) -> Any:
    results = report.results
    for world in results.worlds:
        for label in results.labels(world):
            for of in results.sets(world):
                for metric in report.metrics(world):
                    found = results.estimate(world, label, metric, [of])
                    if found is not None:
                        yield {
                            "world": world,
                            "label": label,
                            "set": of,
                            "metric": metric,
                            "mean": found.mean,
                            "half_ci95": found.half,
                            "seeds": found.seeds,
                        }
