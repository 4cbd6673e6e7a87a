"""What a method's strength does, on the development seeds (the paper's ablation of eta)."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from dph.reporting.figures import save_figure
from dph.reporting.labels import method_label, set_label
from dph.reporting.palette import Look
from dph.reporting.panels import light_grid, title
from dph.study.panel_figures import looks_of, panel_figure
from dph.study.row_files import RowFile
from dph.study.tables import Report
from dph.study.tried import mean_of, tried

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
    for label in report.shown(world):
        points = _points(report, rows, world, label)
        if len(points) < 2:
            continue
        look = chosen[label]
        for metric, line in (("greedy", "-"), (many, "--")):
            means = {s: mean_of(of_strength, metric, [of]) for s, of_strength in points.items()}
            known = {strength: 100 * mean for strength, mean in means.items() if mean is not None}
            axes.plot(
                list(known), list(known.values()), color=look.colour, marker=look.marker,
                markersize=5, linewidth=1.4, linestyle=line,
                label=method_label(label) if metric == "greedy" else None,
            )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="strength", ylabel="per cent")
    title(
        axes,
        f"{world}, {set_label(of)}",
        f"greedy (solid), {many.replace('pass', 'Pass')} (dashed); development seeds",
    )
    light_grid(axes)
