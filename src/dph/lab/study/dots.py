"""One number of each method, with its interval over the report seeds.

Styles are the paper's Figure 2 on a study's worlds, what was kept of the base model's mastered
problems and what was gained of those it never solved its Figure 4.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from dph.lab.study.panel_figures import looks_of, panel_figure
from dph.lab.study.summaries import summary_over_seeds
from dph.lab.study.tables import Report
from dph.results.charts.dots import ROW_HEIGHT
from dph.results.charts.dots import draw_dots as draw_metrics
from dph.results.charts.labels import set_label
from dph.results.charts.palette import Look
from dph.results.charts.panels import title
from dph.results.charts.saved_figure import save_figure
from dph.results.charts.summary_values import value_of

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
                lambda axes, world, of: _panel(axes, report, world, of, metrics, detail, chosen),
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
    models = {label: summary_over_seeds(report, world, label, of) for label in labels}
    draw_metrics(axes, models, metrics, chosen)
    title(axes, f"{world}, {set_label(of)}", f"{detail}; bars: 95% over report seeds")
