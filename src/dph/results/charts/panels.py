"""The panels of a picture: each draws on the axes it is given."""

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from dph.results.charts.palette import MOST_STYLES, Look, band_opacity, fills
from dph.results.vocabulary import (
    BASE,
    K_AXIS,
    STEP_AXIS,
    STRENGTH_AXIS,
    error_bars,
    interval_of,
    method_label,
    metric_axis,
    value_of,
)

Draw = Callable[[Axes], None]
WIDTH, HEIGHT = 5.2, 4.2


class NotebookFigure(Figure):
    """A figure that a notebook shows as a picture, whether or not pyplot was imported there."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()


def panel_grid(rows: Sequence[Sequence[Draw]], *, height: float = HEIGHT) -> Figure:
    """A panel of ``height`` inches for each function; rows may have fewer than the widest.

    What the panels label stands in one legend below, each label once.
    """
    widest = max(map(len, rows))
    figure = NotebookFigure(
        figsize=(WIDTH * widest, height * len(rows)),
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0.03, hspace=0.03),
    )
    panels = figure.subplots(len(rows), widest, squeeze=False)
    for row, draws in zip(panels, rows, strict=True):
        for axes in row[len(draws) :]:
            axes.set_visible(False)
        for axes, draw in zip(row, draws, strict=False):
            draw(axes)
    _add_legend(figure)
    return figure


def wrapped(draws: Sequence[Draw], *, most: int = 3) -> list[list[Draw]]:
    """Panels in rows of at most ``most``, as even as can be.

    >>> [len(row) for row in wrapped([lambda axes: None] * 4)]
    [2, 2]
    """
    count = -(-len(draws) // most)
    widest = -(-len(draws) // count)
    return [list(draws[i : i + widest]) for i in range(0, len(draws), widest)]


def _add_legend(figure: Figure) -> None:
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        if axes.get_legend() is None:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
    if not handles:
        return
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.22 * (1 + len(handles) // 4))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=min(4, len(handles)),
        fontsize=9,
    )


INK = "#222222"
FAINT = "#6B6B6B"
_LABELLED_SHARE = 0.08
"""A segment narrower than this has no room for its number."""

Models = Mapping[str, Mapping[str, Any]]
"""The summary of one set for each model, the base model first."""


def title(ax: Axes, statement: str, detail: str) -> None:
    """The finding, in bold, and the data that is drawn, below it."""
    ax.set_title(statement, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=21)
    ax.text(
        0, 1.025, detail, transform=ax.transAxes, fontsize=9, color=FAINT, va="bottom", ha="left"
    )


def draw_shares(ax: Axes, models: Models, colours: Mapping[str, str] | None = None) -> None:
    """The share of each style as one stacked bar a model, its effective number at the end.

    Where there are more styles than fills, the rarest are drawn together, as ``other``.
    ``colours`` (``style_fills``) holds styles to one order and one fill each in several panels.
    """
    pooled = frequent_styles([model["styles"] for model in models.values()])
    shares = dict(zip(models, pooled, strict=True))
    found = {style for of_model in pooled for style in of_model}
    colours = colours or style_fills([models])
    styles, rows = [style for style in colours if style in found], list(models)
    for style in styles:
        lefts = [_sum_before(shares[name], styles, style) for name in rows]
        widths = [shares[name].get(style, 0.0) for name in rows]
        bars = ax.barh(
            rows, widths, left=lefts, height=0.74, color=colours[style], label=style,
            edgecolor="white", linewidth=0.8,
        )  # fmt: skip
        texts = [f"{100 * w:.0f}" if w >= _LABELLED_SHARE else "" for w in widths]
        ax.bar_label(bars, texts, label_type="center", fontsize=8, color=INK)
    for row, name in enumerate(rows):
        effective = models[name]["effective_styles"]
        if effective is not None:
            ax.text(1.02, row, f"{effective:.1f}", va="center", fontsize=10, fontweight="bold")
            _write_interval(ax, row, interval_of(models[name], "effective_styles"))
    ax.set(xlim=(0, 1), ylim=(len(rows) - 0.45, -0.55))
    ax.set_yticks(range(len(rows)), [method_label(name) for name in rows])
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100%"])
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    if styles:
        ax.legend(
            ncols=min(len(styles), 5), loc="upper center", bbox_to_anchor=(0.5, -0.07),
            fontsize=8.5, handlelength=1, handleheight=1, columnspacing=1.2, handletextpad=0.5,
        )  # fmt: skip


def _write_interval(ax: Axes, row: int, interval: tuple[float, float] | None) -> None:
    if interval is not None:
        text = f"{interval[0]:.1f} to {interval[1]:.1f}"
        ax.text(1.02, row + 0.32, text, va="center", fontsize=7, color=FAINT)


def style_fills(sets: Sequence[Models]) -> dict[str, str]:
    """The fill of every style that panels of these sets draw, in the order of their bars.

    Styles of the first set come first, those that its first model has most of before others.
    """
    styles: dict[str, None] = {}
    for models in sets:
        pooled = frequent_styles([model["styles"] for model in models.values()])
        found = {style for of_model in pooled for style in of_model}
        ordered = sorted(found, key=lambda style: (-pooled[0].get(style, 0.0), style))
        styles |= dict.fromkeys(style for style in ordered if style != "other")
    return fills(styles)


def frequent_styles(
    shares: Sequence[Mapping[str, float]], most: int = MOST_STYLES
) -> list[dict[str, float]]:
    """Shares of styles in which all but the ``most`` frequent ones are ``other``.

    A style is as frequent as it is where it is most so: what a collapsed model answers in is shown
    even if the base model hardly ever did.

    >>> frequent_styles([{"a": 0.5, "b": 0.3, "c": 0.2}, {"c": 1.0}], most=2)
    [{'a': 0.5, 'c': 0.2, 'other': 0.3}, {'c': 1.0}]
    """
    largest: dict[str, float] = {}
    for of_model in shares:
        for style, share in of_model.items():
            if style != "other":
                largest[style] = max(share, largest.get(style, 0.0))
    kept = sorted(largest, key=lambda style: (-largest[style], style))[:most]
    pooled = []
    for of_model in shares:
        rest = sum(share for style, share in of_model.items() if style not in kept)
        shown = {style: share for style, share in of_model.items() if style in kept}
        pooled.append({**shown, "other": rest} if rest else shown)
    return pooled


def draw_pass_at_k(ax: Axes, models: Models, looks: Mapping[str, Look]) -> None:
    """Pass@k in per cent over k on a log2 axis, with a band where there is an interval."""
    ks = sorted({int(k) for model in models.values() for k in model["pass_at_k"]})
    for name, model in models.items():
        mine = [k for k in ks if str(k) in model["pass_at_k"]]
        values = [100 * model["pass_at_k"][str(k)] for k in mine]
        line(ax, mine, values, name, looks[name])
        band(ax, {k: interval_of(model, f"pass_at_{k}") for k in mine}, looks[name], len(models))
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(ks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda k, _: f"{k:.0f}")
    ax.set(xlabel=K_AXIS, ylabel=metric_axis("pass_at_k"))
    ax.set_ylim(top=min(ax.get_ylim()[1], 100.8))
    light_grid(ax)


def draw_training(
    ax: Axes,
    metrics: Mapping[str, Sequence[Mapping[str, Any]]],
    looks: Mapping[str, Look],
    base: float | None,
) -> None:
    """Effective styles over the training steps, with the base model as a level line."""
    highest = base or 1.0
    if base is not None:
        ax.axhline(base, color=looks[BASE].colour, linestyle=(0, looks[BASE].dash), linewidth=1.6)
    for name, rows in metrics.items():
        known = [row for row in rows if row.get("effective_styles") is not None]
        steps = [row["step"] for row in known]
        values = [float(row["effective_styles"]) for row in known]
        highest = max([highest, *values])
        line(ax, steps, values, name, looks[name], markevery=max(1, len(steps) // 6))
    ax.set(xlabel=STEP_AXIS, ylabel=metric_axis("effective_styles"), ylim=(0.8, 1.06 * highest))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.margins(x=0.02)
    light_grid(ax)


def line(
    ax: Axes, x: Sequence[float], y: Sequence[float], name: str, look: Look, markevery: int = 1
) -> None:
    """A model's line with its markers, or dashed without."""
    dashed = bool(look.dash)
    ax.plot(
        x, y, color=look.colour, label=method_label(name), linewidth=1.8,
        linestyle=(0, look.dash) if dashed else "-", zorder=2.5 if dashed else 3,
        marker=look.marker or None, markersize=look.size(5), markeredgecolor="white",
        markeredgewidth=0.7, markevery=markevery, solid_capstyle="round",
    )  # fmt: skip


def band(
    ax: Axes, intervals: Mapping[int, tuple[float, float] | None], look: Look, models: int
) -> None:
    """Intervals of fractions over x, in per cent, fainter where there are many ``models``."""
    known = {x: interval for x, interval in intervals.items() if interval is not None}
    ax.fill_between(
        list(known), [100 * low for low, _ in known.values()],
        [100 * high for _, high in known.values()],
        color=look.colour, alpha=band_opacity(models), linewidth=0,
    )  # fmt: skip


def light_grid(ax: Axes) -> None:
    """Faint lines behind what is drawn."""
    ax.grid(color="#E6E6E6", linewidth=0.8)
    ax.set_axisbelow(True)


def _sum_before(shares: Mapping[str, float], styles: Sequence[str], style: str) -> float:
    return sum(shares.get(other, 0.0) for other in styles[: styles.index(style)])


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


def draw_point(
    ax: Axes,
    model: Mapping[str, Any],
    metrics: tuple[str, str],
    look: Look,
    *,
    label: str,
    faint: bool = False,
) -> None:
    """A dot in per cent with its intervals, a ring where the look has no marker.

    ``faint`` is small and without intervals. Nothing is drawn where a metric is not known.
    """
    x, y = (value_of(model, metric) for metric in metrics)
    if x is None or y is None:
        return
    ring = not look.marker
    bars = [[[100 * end[0]] for end in error_bars(model, metric)] for metric in metrics]
    ax.errorbar(
        100 * x, 100 * y, color=look.colour, label=label, linestyle="none",
        xerr=None if faint else bars[0], yerr=None if faint else bars[1],
        marker=look.marker or "o", markersize=look.size(4 if faint else 7),
        markerfacecolor="white" if ring else look.colour,
        markeredgecolor=look.colour if ring else "white",
        markeredgewidth=1.6 if ring else 0.7, elinewidth=0.8, capsize=0,
        zorder=2.5 if faint else 3,
    )  # fmt: skip


Progress = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""By run, the summary of a set at each step that was measured, rising."""


def draw_progress(ax: Axes, runs: Progress, metric: str, looks: Mapping[str, Look]) -> None:
    """The metric in per cent over the steps, a line a run; step 0 is the initial policy."""
    for name, steps in runs.items():
        known = {s: v for s, of in steps.items() if (v := value_of(of, metric)) is not None}
        line(ax, list(known), [100 * value for value in known.values()], name, looks[name])
        band(ax, {s: interval_of(steps[s], metric) for s in known}, looks[name], len(runs))
    ax.set(xlabel=STEP_AXIS, ylabel=metric_axis(metric))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.margins(x=0.02)
    light_grid(ax)


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
    ax.set(xlabel=STRENGTH_AXIS, ylabel="per cent")
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
