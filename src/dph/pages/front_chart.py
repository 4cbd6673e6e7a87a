"""Greedy against Pass@k: what a run is good at against what it still can do."""

from collections.abc import Sequence

from dph.evaluation.comparison import ComparisonRow
from dph.pages.chart import ROWS, Chart, finished, run_colour
from dph.reporting.labels import set_label

_SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")


def front_chart(
    set_name: str, rows: Sequence[ComparisonRow], k: int, labels: dict[str, str]
) -> Chart | None:
    """A point a run with its 95% intervals; None where there are no greedy answers."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    found = {(row.metric, row.run): row for row in rows}
    keys = [run for run in labels if ("greedy", run) in found]
    if not keys:
        return None
    pairs = [(found["greedy", key], found[f"pass_at_{k}", key]) for key in keys]
    columns = {
        "run": keys,
        "label": [labels[key] for key in keys],
        "x": [greedy.value for greedy, _ in pairs],
        "x_lo": [greedy.lo for greedy, _ in pairs],
        "x_hi": [greedy.hi for greedy, _ in pairs],
        "y": [of_k.value for _, of_k in pairs],
        "y_lo": [of_k.lo for _, of_k in pairs],
        "y_hi": [of_k.hi for _, of_k in pairs],
    }
    axis = alt.Axis(format=".0%", tickCount=5)
    scale = alt.Scale(zero=False, padding=12)
    x = alt.X("x:Q", title="greedy", axis=axis, scale=scale)
    y = alt.Y("y:Q", title=f"Pass@{k}", axis=axis, scale=scale)
    colour = run_colour(keys)
    shape = alt.Shape(
        "run:N",
        legend=None,
        scale=alt.Scale(domain=keys, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(keys))]),
    )
    base = alt.Chart(alt.NamedData(ROWS))
    wide = base.mark_rule(opacity=0.45).encode(
        x=alt.X("x_lo:Q", title="greedy"), x2="x_hi:Q", y=y, color=colour
    )
    high = base.mark_rule(opacity=0.45).encode(
        x=x, y=alt.Y("y_lo:Q", title=f"Pass@{k}"), y2="y_hi:Q", color=colour
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
    name = base.mark_text(align="left", dx=7, dy=-7, fontSize=11, fill="currentColor").encode(
        x=x, y=y, text="label:N"
    )
    return Chart(
        section="front",
        title=set_label(set_name),
        caption="",
        spec=finished(alt.layer(wide, high, point, name), keys, height=220),
        columns=columns,
    )
