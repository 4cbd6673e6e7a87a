"""Greedy against Pass@k: what a run is good at against what it still can do."""

from collections.abc import Mapping, Sequence
from typing import Any

from dph.evaluation.comparison import ComparisonRow
from dph.pages.chart import ROWS, Chart, finished, run_colour
from dph.reporting.labels import set_label

_SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")


_TURN = 0.7
"""Points further to the right have their names on their left."""
_NEAR, _CLOSE = 0.25, 0.08
"""Shares of the width and the height within which names would lie on each other."""


def front_chart(
    set_name: str, rows: Sequence[ComparisonRow], k: int, labels: dict[str, str]
) -> Chart | None:
    """A point a run with its 95% intervals; None where there are no greedy answers."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    found = {(row.metric, row.run): row for row in rows}
    keys = [run for run in labels if ("greedy", run) in found]
    if not keys:
        return None
    columns = _columns(found, keys, k, labels)
    axis = alt.Axis(format=".2~%", tickCount=5, labelExpr="datum.value > 1.0001 ? '' : datum.label")
    (x_lo, x_hi), (y_lo, y_hi) = (
        _domain(columns[f"{axis_name}_lo"], columns[f"{axis_name}_hi"]) for axis_name in "xy"
    )
    x_scale = alt.Scale(domain=[x_lo, x_hi], nice=False)
    y_scale = alt.Scale(domain=[y_lo, y_hi], nice=False)
    x = alt.X("x:Q", title="greedy", axis=axis, scale=x_scale)
    y = alt.Y("y:Q", title=f"Pass@{k}", axis=axis, scale=y_scale)
    colour = run_colour(keys)
    shape = alt.Shape(
        "run:N",
        legend=None,
        scale=alt.Scale(domain=keys, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(keys))]),
    )
    base = alt.Chart(alt.NamedData(ROWS))
    wide = base.mark_rule(opacity=0.45).encode(
        x=alt.X("x_lo:Q", title="greedy", scale=x_scale), x2="x_hi:Q", y=y, color=colour
    )
    high = base.mark_rule(opacity=0.45).encode(
        x=x, y=alt.Y("y_lo:Q", title=f"Pass@{k}", scale=y_scale), y2="y_hi:Q", color=colour
    )
    point = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        y=y,
        color=colour,
        shape=shape,
        tooltip=[
            alt.Tooltip("label:N"),
            alt.Tooltip("x:Q", title="greedy", format=".1%"),
            alt.Tooltip("y:Q", title=f"Pass@{k}", format=".1%"),
        ],
    )
    places = _label_places(columns["x"], columns["y"], (x_lo, x_hi), (y_lo, y_hi))
    columns["place"] = [f"{side} {level}" for side, level in places]
    names = _names(base.encode(x=x, y=y), places)
    return Chart(
        section="front",
        title=set_label(set_name),
        caption="",
        spec=finished(alt.layer(wide, high, point, *names), keys, height=220),
        columns=columns,
    )


def _domain(lows: Sequence[float], highs: Sequence[float]) -> tuple[float, float]:
    """A little more than the intervals take, and never so little that noise looks large."""
    low, high = min(lows), max(highs)
    room = max(0.08 * (high - low), 0.01)
    return low - room, high + room


def _label_places(
    xs: Sequence[float],
    ys: Sequence[float],
    x_domain: tuple[float, float],
    y_domain: tuple[float, float],
) -> list[tuple[str, int]]:
    """The side of each point that its name stands on, and how many names are below it already.

    >>> _label_places([0.5, 0.5, 0.9], [1.0, 1.0, 0.2], (0, 1), (0, 1))
    [('right', 0), ('right', 1), ('left', 0)]
    """
    placed: list[tuple[float, float, str, int]] = []
    for x, y in zip(xs, ys, strict=True):
        across = (x - x_domain[0]) / (x_domain[1] - x_domain[0])
        up = (y - y_domain[0]) / (y_domain[1] - y_domain[0])
        side = "right" if across < _TURN else "left"
        near = [
            one[3] for one in placed if abs(one[0] - across) < _NEAR and abs(one[1] - up) < _CLOSE
        ]
        placed.append((across, up, side, max(near) + 1 if near else 0))
    return [(side, level) for _, _, side, level in placed]


def _columns(
    found: Mapping[tuple[str, str], ComparisonRow],
    keys: list[str],
    k: int,
    labels: Mapping[str, str],
) -> dict[str, list[Any]]:
    pairs = [(found["greedy", key], found[f"pass_at_{k}", key]) for key in keys]
    return {
        "run": keys,
        "label": [labels[key] for key in keys],
        "x": [greedy.value for greedy, _ in pairs],
        "x_lo": [greedy.lo for greedy, _ in pairs],
        "x_hi": [greedy.hi for greedy, _ in pairs],
        "y": [of_k.value for _, of_k in pairs],
        "y_lo": [of_k.lo for _, of_k in pairs],
        "y_hi": [of_k.hi for _, of_k in pairs],
    }


def _names(base: Any, places: Sequence[tuple[str, int]]) -> list[Any]:
    """The runs' labels beside their points, those at one place above each other."""
    return [
        base.transform_filter(f"datum.place == '{side} {level}'")
        .mark_text(
            align="left" if side == "right" else "right",
            dx=7 if side == "right" else -7,
            dy=-8 - 13 * level,
            fontSize=11,
            fill="currentColor",
        )
        .encode(text="label:N")
        for side, level in dict.fromkeys(places)
    ]
