"""Pass@k over k, with bands over the report seeds (the paper's Figure 3 on a study's worlds)."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes

from dph.lab.study.panel_figures import looks_of, panel_figure
from dph.lab.study.summaries import summary_over_seeds
from dph.lab.study.tables import Report
from dph.results.charts.labels import set_label
from dph.results.charts.palette import Look
from dph.results.charts.panels import draw_pass_at_k, title
from dph.results.charts.saved_figure import save_figure

NAME = "pass_at_k.png"


def draw_curves(report: Report, directory: Path) -> Path:
    """``pass_at_k.png``: a panel for each set of each world, the methods that are shown."""
    chosen, path = looks_of(report), directory / NAME
    save_figure(
        path,
        lambda: panel_figure(report, lambda axes, w, of: _panel(axes, report, w, of, chosen)),
    )
    return path


def _panel(axes: Axes, report: Report, world: str, of: str, chosen: Mapping[str, Look]) -> None:
    models = {label: summary_over_seeds(report, world, label, of) for label in report.shown(world)}
    draw_pass_at_k(axes, models, chosen)
    title(axes, f"{world}, {set_label(of)}", "means over report seeds; bands: 95% t-intervals")
