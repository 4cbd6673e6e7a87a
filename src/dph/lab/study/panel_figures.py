"""A figure with one panel for each set of each world, and one legend for all of them."""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dph.lab.study.results import Estimate
from dph.lab.study.tables import Report
from dph.results.charts.labels import BASE, method_label
from dph.results.charts.palette import Look, looks_by_method
from dph.results.charts.panel_grid import HEIGHT, panel_grid

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
    """What a legend calls a label; all that are not shown have one entry."""
    return method_label(label) if label in report.shown(world) else OTHERS


def bars(estimate: Estimate) -> tuple[list[float], list[float]]:
    """The lengths of an interval's halves in per cent, cut at 0 and 100, for ``errorbar``."""
    half, mean = 100 * (estimate.half or 0.0), 100 * estimate.mean
    return [min(half, mean)], [min(half, 100 - mean)]
