"""Pass@k over k, with bands over the report seeds (the paper's Figure 3 on a study's worlds)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from dph.reporting.figures import save_figure
from dph.reporting.labels import set_label
from dph.reporting.palette import Look
from dph.reporting.panels import draw_pass_at_k, title
from dph.study.panel_figures import looks_of, panel_figure
from dph.study.tables import Report

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
    ks = report.results.ks(world)
    models = {
        label: summary_over_seeds(report, world, label, of, ks) for label in report.shown(world)
    }
    draw_pass_at_k(axes, models, chosen)
    title(axes, f"{world}, {set_label(of)}", "means over report seeds; bands: 95% t-intervals")


def summary_over_seeds(
    report: Report, world: str, label: str, of: str, ks: tuple[int, ...]
) -> dict[str, Any]:
    """What an evaluation's summary has, with intervals over seeds instead of over problems."""
    found = {
        k: estimate
        for k in ks
        if (estimate := report.results.estimate(world, label, f"pass@{k}", [of])) is not None
    }
    return {
        "pass_at_k": {str(k): estimate.mean for k, estimate in found.items()},
        "ci95": {
            f"pass_at_{k}": (max(0.0, e.mean - e.half), min(1.0, e.mean + e.half))
            for k, e in found.items()
            if e.half is not None
        },
    }
