"""A score over the steps of training, with bands (the paper's Figure 5)."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dph.results.charts.palette import Look
from dph.results.charts.panels import band, light_grid, line
from dph.results.charts.summary_values import interval_of, metric_title, value_of

Progress = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""By run, the summary of a set at each step that was measured, rising."""


def draw_progress(ax: Axes, runs: Progress, metric: str, looks: Mapping[str, Look]) -> None:
    """The metric in per cent over the steps, a line a run; step 0 is the initial policy."""
    for name, steps in runs.items():
        known = {s: v for s, of in steps.items() if (v := value_of(of, metric)) is not None}
        line(ax, list(known), [100 * value for value in known.values()], name, looks[name])
        band(ax, {s: interval_of(steps[s], metric) for s in known}, looks[name], len(runs))
    ax.set(xlabel="training step", ylabel=f"{metric_title(metric)} (%)")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.margins(x=0.02)
    light_grid(ax)
