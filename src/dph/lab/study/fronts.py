"""Pictures of fronts: the first try against many tries, a point a method, a line over strengths."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dph.lab.study.all_tables import mean_of, tried
from dph.lab.study.results import SeedMean
from dph.lab.study.rows import RunRow
from dph.lab.study.tables import Report
from dph.results.charts.aggregate import metric_title, value_of
from dph.results.charts.figures import save_figure
from dph.results.charts.palette import BASE, Look, looks_by_method, method_label, set_label
from dph.results.charts.panels import (
    HEIGHT,
    ROW_HEIGHT,
    draw_pass_at_k,
    light_grid,
    panel_grid,
    title,
)
from dph.results.charts.panels import draw_dots as draw_metrics
from dph.results.charts.panels import draw_strengths as draw_lines

# A figure with one panel for each set of each world, and one legend for all of them.

Panel = Callable[[Axes, str, str], None]
"""Draws what a world (second) shows on a set (third)."""


def panel_figure(report: Report, draw: Panel, *, height: float = HEIGHT) -> Figure:
    """``draw`` on a panel of ``height`` inches for each world, from above, and set."""
    return panel_grid(
        [
            [lambda axes, w=world, s=of: draw(axes, w, s) for of in report.sets(world)]  # type: ignore[misc]
            for world in report.results.worlds
        ],
        height=height,
    )


OTHERS = "other methods"
_GREY = Look("#BDBDBD", "o")


def looks_of(report: Report) -> dict[str, Look]:
    """The look of every label: that of its method where no label before it has the same method.

    Labels that the study does not show are grey.
    """
    shown = {label for world in report.results.worlds for label in report.shown(world)}
    methods = {m.label: m.name for m in report.study.file.methods if m.label in shown}
    found = looks_by_method({BASE: BASE, **methods})
    return {label: found.get(label, _GREY) for label in report.results.all_labels()}


def legend_label(report: Report, world: str, label: str) -> str:
    """Legend of a label; all that are not shown have one entry."""
    return method_label(label) if label in report.shown(world) else OTHERS


def bars(estimate: SeedMean) -> tuple[list[float], list[float]]:
    """The lengths of an interval's halves in per cent, cut at 0 and 100, for ``errorbar``."""
    half, mean = 100 * (estimate.half or 0.0), 100 * estimate.mean
    return [min(half, mean)], [min(half, 100 - mean)]


# What a method scored on a set, in the form of evaluation.json, which pictures take.

_PLAIN = {
    "greedy": "greedy",
    "mean": "mean",
    "keep": "keep",
    "explore": "explore",
    "effective_styles": "styles",
}
"""By the name in evaluation.json, what a study calls it."""


def summary_over_seeds(report: Report, world: str, label: str, of: str) -> dict[str, Any]:
    """Means over the report seeds, with intervals over seeds; what is not known is None."""
    of_study = _PLAIN | {f"pass_at_{k}": f"pass@{k}" for k in report.results.ks(world)}
    found = {
        name: estimate
        for name, metric in of_study.items()
        if (estimate := report.results.estimate(world, label, metric, [of])) is not None
    }
    means = {name: estimate.mean for name, estimate in found.items()}
    return {
        **{name: means.pop(name, None) for name in _PLAIN},
        "pass_at_k": {name.removeprefix("pass_at_"): mean for name, mean in means.items()},
        "ci95": {name: _interval(name, e) for name, e in found.items() if e.half is not None},
    }


def _interval(name: str, estimate: SeedMean) -> tuple[float, float]:
    """Cut to what the metric can be."""
    low, high = (1.0, inf) if name == "effective_styles" else (0.0, 1.0)
    half = estimate.half or 0.0
    return max(low, estimate.mean - half), min(high, estimate.mean + half)


# What a method's strength does, on the development seeds (the paper's ablation of eta).

STRENGTHS = "strengths.png"


def draw_strengths(report: Report, rows: Mapping[str, RunRow], directory: Path) -> Path | None:
    """``strengths.png``, where a method that is shown was tried at several strengths."""
    if not any(
        len(_points(report, rows, world, label)) > 1
        for world in report.results.worlds
        for label in report.shown(world)
    ):
        return None
    chosen, path = looks_of(report), directory / STRENGTHS
    save_figure(
        path,
        lambda: panel_figure(
            report, lambda axes, w, of: _strengths_panel(axes, report, rows, w, of, chosen)
        ),
    )
    return path


def _points(
    report: Report, rows: Mapping[str, RunRow], world: str, label: str
) -> dict[float, list[RunRow]]:
    """The runs at each strength above 0."""
    found = tried(report, rows, world, label)
    return {place.strength: of_place for place, of_place in found.items() if place.strength > 0}


def _strengths_panel(
    axes: Axes,
    report: Report,
    rows: Mapping[str, RunRow],
    world: str,
    of: str,
    chosen: Mapping[str, Look],
) -> None:
    many = next((m for m in report.metrics(world) if m.startswith("pass@")), "mean")
    metrics = ("greedy", many.replace("pass@", "pass_at_"))
    lines = {
        label: {
            strength: _means(of_strength, (("greedy", "greedy"), (metrics[1], many)), of)
            for strength, of_strength in points.items()
        }
        for label in report.shown(world)
        if len(points := _points(report, rows, world, label)) > 1
    }
    draw_lines(axes, lines, metrics, chosen)
    title(
        axes,
        f"{world}, {set_label(of)}",
        f"greedy (solid), {metric_title(metrics[1])} (dashed); development seeds",
    )


def _means(rows: Sequence[RunRow], metrics: Sequence[tuple[str, str]], of: str) -> dict[str, Any]:
    """Means over development seeds in the form of evaluation.json; nothing is tested on them."""
    known = {name: mean_of(rows, metric, [of]) for name, metric in metrics}
    by_k = {
        name.removeprefix("pass_at_"): value
        for name, value in known.items()
        if name.startswith("pass_at_")
    }
    return {**known, "pass_at_k": by_k, "ci95": {}}


# One number of each method, with its interval over the report seeds.
#
# Styles are the paper's Figure 2 on a study's worlds, what was kept of the base model's mastered
# problems and what was gained of those it never solved its Figure 4.

_STATEMENTS = {
    "styles.png": (("effective_styles",), "effective number of styles"),
    "retention.png": (("keep", "explore"), "kept (filled) and gained"),
}


def draw_dots(report: Report, directory: Path) -> list[Path]:
    """``styles.png`` and ``retention.png``, where the study's worlds have such scores."""
    chosen, paths = looks_of(report), []
    for name, (metrics, detail) in _STATEMENTS.items():
        if not _known(report, metrics):
            continue
        paths.append(directory / name)
        save_figure(
            paths[-1],
            lambda metrics=metrics, detail=detail: panel_figure(  # type: ignore[misc]
                report,
                lambda axes, world, of: _dots_panel(
                    axes, report, world, of, metrics, detail, chosen
                ),
                height=1.2 + ROW_HEIGHT * len(report.results.all_labels()),
            ),
        )
    return paths


def _known(report: Report, metrics: Sequence[str]) -> bool:
    return any(
        value_of(summary_over_seeds(report, world, label, of), metric) is not None
        for world in report.results.worlds
        for label in report.results.labels(world)
        for of in report.sets(world)
        for metric in metrics
    )


def _dots_panel(
    axes: Axes,
    report: Report,
    world: str,
    of: str,
    metrics: Sequence[str],
    detail: str,
    chosen: Mapping[str, Look],
) -> None:
    labels = report.results.labels(world)
    models = {label: summary_over_seeds(report, world, label, of) for label in labels}
    draw_metrics(axes, models, metrics, chosen)
    title(axes, f"{world}, {set_label(of)}", f"{detail}; bars: 95% over report seeds")


# Pass@k over k, with bands over the report seeds (the paper's Figure 3 on a study's worlds).

CURVES = "pass_at_k.png"


def draw_curves(report: Report, directory: Path) -> Path:
    """``pass_at_k.png``: a panel for each set of each world, the methods that are shown."""
    chosen, path = looks_of(report), directory / CURVES
    save_figure(
        path,
        lambda: panel_figure(
            report, lambda axes, w, of: _curves_panel(axes, report, w, of, chosen)
        ),
    )
    return path


def _curves_panel(
    axes: Axes, report: Report, world: str, of: str, chosen: Mapping[str, Look]
) -> None:
    models = {label: summary_over_seeds(report, world, label, of) for label in report.shown(world)}
    draw_pass_at_k(axes, models, chosen)
    title(axes, f"{world}, {set_label(of)}", "means over report seeds; bands: 95% t-intervals")


_NAMES = {"greedy": "greedy (%)", "mean": "mean@1 (%)"}


@dataclass(frozen=True, slots=True)
class _Point:
    """In per cent; the errors are the lengths of the bars below and above, cut at 0 and 100."""

    x: float
    y: float
    x_error: tuple[list[float], list[float]]
    y_error: tuple[list[float], list[float]]


def draw_fronts(report: Report, rows: Mapping[str, RunRow], directory: Path) -> list[Path]:
    """``fronts_greedy.png`` and ``fronts_mean.png``: a panel for each set of each world."""
    paths = []
    for metric in _NAMES:
        path = directory / f"fronts_{metric}.png"
        save_figure(path, lambda metric=metric: _figure(report, rows, metric))  # type: ignore[misc]
        paths.append(path)
    return paths


def _figure(report: Report, rows: Mapping[str, RunRow], metric: str) -> Figure:
    chosen = looks_of(report)
    return panel_figure(
        report, lambda axes, world, of: _panel(axes, report, rows, world, of, metric, chosen)
    )


def _panel(
    axes: Axes,
    report: Report,
    rows: Mapping[str, RunRow],
    world: str,
    of: str,
    metric: str,
    chosen: Mapping[str, Look],
) -> None:
    many = next((m for m in report.metrics(world) if m.startswith("pass@")), "mean")
    seeds = report.results.seeds
    for label in report.results.labels(world):
        look, shown = chosen[label], label in report.shown(world)
        if not shown and seeds(world, label) < seeds(world, report.reference):
            continue  # a grey dot has no bar that would tell how little is behind it
        line = list(_over_strengths(report, rows, world, label, of, (metric, many)))
        if len(line) > 1 and shown:
            axes.plot(
                [x for x, _ in line], [y for _, y in line], color=look.colour, linewidth=1,
                alpha=0.45, marker=".", markersize=4, zorder=2,
            )  # fmt: skip
        point = _point(report, world, label, of, (metric, many))
        if point is not None:
            axes.errorbar(
                point.x, point.y, color=look.colour,
                xerr=point.x_error if shown else None, yerr=point.y_error if shown else None,
                marker=look.marker or "X",
                markersize=look.size(8 if label == BASE else 7 if shown else 4),
                markeredgecolor="white", markeredgewidth=0.7, elinewidth=0.8, capsize=0,
                label=legend_label(report, world, label), linestyle="none",
                zorder=3 if shown else 2.5,
            )  # fmt: skip
    axes.set(xlabel=_NAMES[metric], ylabel=f"{many.replace('pass', 'Pass')} (%)")
    title(
        axes,
        f"{world}, {set_label(of)}",
        "marks: report seeds, 95%; lines: development seeds",
    )
    light_grid(axes)


def _point(
    report: Report, world: str, label: str, of: str, metrics: tuple[str, str]
) -> _Point | None:
    x, y = (report.results.estimate(world, label, metric, [of]) for metric in metrics)
    if x is None or y is None:
        return None
    return _Point(100 * x.mean, 100 * y.mean, bars(x), bars(y))


def _over_strengths(
    report: Report,
    rows: Mapping[str, RunRow],
    world: str,
    label: str,
    of: str,
    metrics: tuple[str, str],
) -> Iterator[tuple[float, float]]:
    """Means over the development seeds, from the weakest candidate to the strongest."""
    for of_candidate in tried(report, rows, world, label).values():
        x, y = (mean_of(of_candidate, metric, [of]) for metric in metrics)
        if x is not None and y is not None:
            yield 100 * x, 100 * y
