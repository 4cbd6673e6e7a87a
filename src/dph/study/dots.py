"""One number of each method, with its interval over the report seeds.

Styles are the paper's Figure 2 on a study's worlds, what was kept of the base model's mastered
problems and what was gained of those it never solved its Figure 4.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from dph.reporting.figures import save_figure
from dph.reporting.labels import BASE, set_label
from dph.reporting.palette import Look
from dph.reporting.panels import light_grid, title
from dph.study.panel_figures import looks_of, panel_figure
from dph.study.tables import Report

_HEIGHT = 0.19
_MARKERS = ("o", "D")
_STATEMENTS = {
    "styles.png": (("styles",), "effective number of styles"),
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
                lambda axes, world, of: _panel(axes, report, world, of, metrics, detail, chosen),
                height=1.2 + _HEIGHT * len(report.results.all_labels()),
            ),
        )
    return paths


def _known(report: Report, metrics: Sequence[str]) -> bool:
    return any(
        report.results.estimate(world, label, metric, [of]) is not None
        for world in report.results.worlds
        for label in report.results.labels(world)
        for of in report.sets(world)
        for metric in metrics
    )


def _panel(
    axes: Axes,
    report: Report,
    world: str,
    of: str,
    metrics: Sequence[str],
    detail: str,
    chosen: Mapping[str, Look],
) -> None:
    labels = report.results.labels(world)
    scale = 1 if metrics == ("styles",) else 100
    for row, label in enumerate(labels):
        colour = chosen[label].colour
        for metric, marker in zip(metrics, _MARKERS, strict=False):
            found = report.results.estimate(world, label, metric, [of])
            if found is not None:
                axes.errorbar(
                    scale * found.mean, row, xerr=scale * (found.half or 0.0), color=colour,
                    marker=marker, markersize=5, elinewidth=1, capsize=0, linestyle="none",
                    markerfacecolor=colour if marker == _MARKERS[0] else "white",
                )  # fmt: skip
    axes.set_yticks(range(len(labels)), ["Base model" if x == BASE else x for x in labels])
    axes.set(ylim=(len(labels) - 0.5, -0.5), xlabel="" if scale == 1 else "share (%)")
    axes.tick_params(axis="y", labelsize=8, length=0)
    title(axes, f"{world}, {set_label(of)}", f"{detail}; bars: 95% over report seeds")
    light_grid(axes)
