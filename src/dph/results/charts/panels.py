"""The panels of a picture: each draws on the axes it is given."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from dph.results.charts.labels import BASE, method_label
from dph.results.charts.palette import MOST_STYLES, Look, fills
from dph.results.charts.summary_values import interval_of

INK = "#222222"
FAINT = "#6B6B6B"
_LABELLED_SHARE = 0.08
"""A segment narrower than this has no room for its number."""
_FEW = 5
"""Up to so many models the bands can be strong; more would pile up."""

Models = Mapping[str, Mapping[str, Any]]
"""The summary of one set for each model, the base model first."""


def title(ax: Axes, statement: str, detail: str) -> None:
    """What is seen, in bold, and what is drawn, below it."""
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
    ax.set(xlabel="k (samples a problem)", ylabel="Pass@k (%)")
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
        ax.axhline(base, color=looks[BASE].colour, linestyle=(0, (4, 2)), linewidth=1.6)
    for name, rows in metrics.items():
        known = [row for row in rows if row.get("effective_styles") is not None]
        steps = [row["step"] for row in known]
        values = [float(row["effective_styles"]) for row in known]
        highest = max([highest, *values])
        line(ax, steps, values, name, looks[name], markevery=max(1, len(steps) // 6))
    ax.set(xlabel="training step", ylabel="effective styles", ylim=(0.8, 1.06 * highest))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.margins(x=0.02)
    light_grid(ax)


def line(
    ax: Axes, x: Sequence[float], y: Sequence[float], name: str, look: Look, markevery: int = 1
) -> None:
    """A model's line with its markers; the base model's is dashed."""
    is_base = name == BASE
    ax.plot(
        x, y, color=look.colour, label=method_label(name), linewidth=1.8,
        linestyle=(0, (4, 2)) if is_base else "-", zorder=2.5 if is_base else 3,
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
        color=look.colour, alpha=0.12 if models <= _FEW else 0.06, linewidth=0,
    )  # fmt: skip


def light_grid(ax: Axes) -> None:
    """Faint lines behind what is drawn."""
    ax.grid(color="#E6E6E6", linewidth=0.8)
    ax.set_axisbelow(True)


def _sum_before(shares: Mapping[str, float], styles: Sequence[str], style: str) -> float:
    return sum(shares.get(other, 0.0) for other in styles[: styles.index(style)])
