"""What a method's strength does: greedy and Pass@k over it (the paper's ablation of eta)."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from dph.results.charts.labels import BASE, method_label
from dph.results.charts.palette import Look
from dph.results.charts.panels import light_grid
from dph.results.charts.summary_values import error_bars, value_of

Strengths = Mapping[str, Mapping[float, Mapping[str, Any]]]
"""By method, the summary of a set at each strength, rising."""
_STYLES = ("-", "--")
_MOST_TICKS = 8


def draw_strengths(
    ax: Axes,
    methods: Strengths,
    metrics: tuple[str, str],
    looks: Mapping[str, Look],
    base: Mapping[str, Any] | None = None,
) -> None:
    """Two metrics in per cent over the strength: solid and dashed, with their intervals.

    The axis is logarithmic; where a method was run at strength 0 the axis is linear below the
    smallest other one. ``base`` draws the same of the initial policy as level lines.
    """
    for name, points in methods.items():
        for metric, line in zip(metrics, _STYLES, strict=True):
            known = {s: v for s, of in points.items() if (v := value_of(of, metric)) is not None}
            bars = [error_bars(points[strength], metric) for strength in known]
            ax.errorbar(
                list(known), [100 * value for value in known.values()],
                yerr=[[100 * bar[i][0] for bar in bars] for i in (0, 1)],
                color=looks[name].colour, marker=looks[name].marker,
                markersize=looks[name].size(5), linewidth=1.4, elinewidth=0.8, capsize=0,
                linestyle=line, label=method_label(name) if line == _STYLES[0] else None,
            )  # fmt: skip
    if base is not None:
        _draw_level(ax, base, metrics, looks[BASE].colour)
    _set_scale(ax, sorted({strength for points in methods.values() for strength in points}))
    ax.set(xlabel="strength", ylabel="per cent")
    light_grid(ax)


def _draw_level(ax: Axes, base: Mapping[str, Any], metrics: tuple[str, str], colour: str) -> None:
    for metric, line in zip(metrics, _STYLES, strict=True):
        value = value_of(base, metric)
        if value is not None:
            label = method_label(BASE) if line == _STYLES[0] else None
            ax.axhline(
                100 * value, color=colour, linestyle=line, linewidth=1, zorder=1, label=label
            )


def _set_scale(ax: Axes, strengths: list[float]) -> None:
    positive = [strength for strength in strengths if strength > 0]
    if positive and positive[0] > strengths[0]:
        ax.set_xscale("symlog", linthresh=positive[0])
    elif positive:
        ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    if len(strengths) <= _MOST_TICKS:
        ax.xaxis.set_major_locator(FixedLocator(strengths))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
