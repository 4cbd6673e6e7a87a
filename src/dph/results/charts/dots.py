"""One number of each model as a dot with its interval: styles, or what was kept and gained."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from dph.results.charts.labels import method_label
from dph.results.charts.palette import Look
from dph.results.charts.panels import Models, light_grid
from dph.results.charts.summary_values import error_bars, value_of

ROW_HEIGHT = 0.19
"""Inches that a model's row takes."""
_MARKERS = ("o", "D")
_APART = 0.14
"""Two dots of a row stand so far above and below its middle."""


def draw_dots(ax: Axes, models: Models, metrics: Sequence[str], looks: Mapping[str, Look]) -> None:
    """A row for each model, a dot for each of up to two metrics: filled, then hollow.

    Fractions are in per cent; ``effective_styles`` is a number.
    """
    places = (0.0,) if len(metrics) == 1 else (-_APART, _APART)
    scale = 1 if tuple(metrics) == ("effective_styles",) else 100
    for row, (name, summary) in enumerate(models.items()):
        colour = looks[name].colour
        for metric, marker, place in zip(metrics, _MARKERS, places, strict=False):
            value = value_of(summary, metric)
            if value is None:
                continue
            below, above = error_bars(summary, metric)
            ax.errorbar(
                scale * value, row + place, xerr=([scale * below[0]], [scale * above[0]]),
                color=colour, marker=marker, markersize=5, elinewidth=1, capsize=0,
                linestyle="none",
                markerfacecolor=colour if marker == _MARKERS[0] else "white",
            )  # fmt: skip
    if scale == 100:
        ax.set_xlim(max(ax.get_xlim()[0], -1), min(ax.get_xlim()[1], 101))
    ax.set_yticks(range(len(models)), [method_label(name) for name in models])
    ax.set(ylim=(len(models) - 0.5, -0.5), xlabel="" if scale == 1 else "share (%)")
    ax.tick_params(axis="y", labelsize=8, length=0)
    light_grid(ax)
