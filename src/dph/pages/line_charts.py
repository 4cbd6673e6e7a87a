"""Lines over steps or over k, one a run, with a band where there are intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

from dph.pages.chart import ROWS, Chart, finished, run_colour

HEIGHT = 180


def line_chart(
    section: str,
    title: str,
    columns: Mapping[str, Sequence[Any]],
    keys: Sequence[str],
    *,
    x_title: str,
    unit: str,
    caption: str = "",
    powers: bool = False,
) -> Chart:
    """A line of ``value`` over ``x`` for each ``run``; ``lo`` and ``hi`` make a band.

    ``powers`` puts x on a scale of powers of two. A pointer near a step shows every run's value.
    """
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    ticks = sorted(set(columns["x"]))
    scale = alt.Scale(type="log", base=2) if powers else alt.Scale(zero=False, nice=False)
    axis = alt.Axis(grid=False, format="d", **({"values": ticks} if powers else {"tickCount": 5}))
    percent = unit == "%"
    y_title, exact = (None, ".1%") if percent else (unit or None, ".4~g")
    base = alt.Chart(alt.NamedData(ROWS)).encode(
        x=alt.X("x:Q", title=x_title, scale=scale, axis=axis)
    )
    y = alt.Y(
        "value:Q",
        title=y_title,
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format=".0%" if percent else "~s", tickCount=5),
    )
    line = base.mark_line(strokeWidth=1.75, interpolate="linear", strokeJoin="round").encode(
        y=y, color=run_colour(keys)
    )
    points = base.mark_point(filled=True, opacity=1, size=22).encode(y=y, color=run_colour(keys))
    near = alt.selection_point(
        name="near", fields=["x"], nearest=True, on="pointerover", clear="pointerout", empty=False
    )
    rule = (
        base.transform_pivot("run", value="value", groupby=["x"])
        .mark_rule(color="currentColor")
        .encode(
            opacity=alt.when(near).then(alt.value(0.35)).otherwise(alt.value(0)),
            tooltip=[
                alt.Tooltip("x:Q", title=x_title),
                *(alt.Tooltip(f"{key}:Q", title=key, format=exact) for key in keys),
            ],
        )
        .add_params(near)
    )
    layers: list[Any] = [line, rule]
    if "lo" in columns:
        layers.insert(
            0,
            base.mark_area(opacity=0.15).encode(
                y=alt.Y("lo:Q", title=y_title), y2="hi:Q", color=run_colour(keys)
            ),
        )
    layers.insert(-1, points if powers else points.transform_filter(near))
    spec = finished(alt.layer(*layers), keys, height=HEIGHT)
    return Chart(section=section, title=title, caption=caption, spec=spec, columns=columns)
