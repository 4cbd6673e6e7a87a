"""Pictures of fronts: the first try against many tries, a point a method, a line over strengths."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dph.lab.study.panel_figures import bars, legend_label, looks_of, panel_figure
from dph.lab.study.row_files import RowFile
from dph.lab.study.tables import Report
from dph.lab.study.tried import mean_of, tried
from dph.results.charts.labels import BASE, set_label
from dph.results.charts.palette import Look
from dph.results.charts.panels import light_grid, title
from dph.results.charts.saved_figure import save_figure

_NAMES = {"greedy": "greedy (%)", "mean": "mean@1 (%)"}


@dataclass(frozen=True, slots=True)
class _Point:
    """In per cent; the errors are the lengths of the bars below and above, cut at 0 and 100."""

    x: float
    y: float
    x_error: tuple[list[float], list[float]]
    y_error: tuple[list[float], list[float]]


def draw_fronts(report: Report, rows: Mapping[str, RowFile], directory: Path) -> list[Path]:
    """``fronts_greedy.png`` and ``fronts_mean.png``: a panel for each set of each world."""
    paths = []
    for metric in _NAMES:
        path = directory / f"fronts_{metric}.png"
        save_figure(path, lambda metric=metric: _figure(report, rows, metric))  # type: ignore[misc]
        paths.append(path)
    return paths


def _figure(report: Report, rows: Mapping[str, RowFile], metric: str) -> Figure:
    chosen = looks_of(report)
    return panel_figure(
        report, lambda axes, world, of: _panel(axes, report, rows, world, of, metric, chosen)
    )


def _panel(
    axes: Axes,
    report: Report,
    rows: Mapping[str, RowFile],
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
    rows: Mapping[str, RowFile],
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
