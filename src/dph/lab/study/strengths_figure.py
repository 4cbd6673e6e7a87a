"""What a method's strength does, on the development seeds (the paper's ablation of eta)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from dph.lab.study.panel_figures import looks_of, panel_figure
from dph.lab.study.row_files import RowFile
from dph.lab.study.tables import Report
from dph.lab.study.tried import mean_of, tried
from dph.results.charts.labels import set_label
from dph.results.charts.palette import Look
from dph.results.charts.panels import title
from dph.results.charts.saved_figure import save_figure
from dph.results.charts.strength_lines import draw_strengths as draw_lines
from dph.results.charts.summary_values import metric_title

NAME = "strengths.png"


def draw_strengths(report: Report, rows: Mapping[str, RowFile], directory: Path) -> Path | None:
    """``strengths.png``, where a method that is shown was tried at several strengths."""
    if not any(
        len(_points(report, rows, world, label)) > 1
        for world in report.results.worlds
        for label in report.shown(world)
    ):
        return None
    chosen, path = looks_of(report), directory / NAME
    save_figure(
        path,
        lambda: panel_figure(report, lambda axes, w, of: _panel(axes, report, rows, w, of, chosen)),
    )
    return path


def _points(
    report: Report, rows: Mapping[str, RowFile], world: str, label: str
) -> dict[float, list[RowFile]]:
    """The runs at each strength above 0."""
    found = tried(report, rows, world, label)
    return {place.strength: of_place for place, of_place in found.items() if place.strength > 0}


def _panel(
    axes: Axes,
    report: Report,
    rows: Mapping[str, RowFile],
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


def _means(rows: Sequence[RowFile], metrics: Sequence[tuple[str, str]], of: str) -> dict[str, Any]:
    """Means over development seeds in the form of evaluation.json; nothing is tested on them."""
    known = {name: mean_of(rows, metric, [of]) for name, metric in metrics}
    by_k = {
        name.removeprefix("pass_at_"): value
        for name, value in known.items()
        if name.startswith("pass_at_")
    }
    return {**known, "pass_at_k": by_k, "ci95": {}}
