"""Lines over steps or over k, one a run, with a band where there are intervals."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from dph.results.report.chart import ROWS, Chart, finished, run_colour

HEIGHT = 180
_FEW = 10
"""So many steps are points as well, so that a single one can be seen."""


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
    ticks = sorted(set(columns["x"]))
    spec = _spec(
        tuple(keys),
        x_title,
        percent=unit == "%",
        banded="lo" in columns,
        few=len(ticks) <= _FEW,
        ticks=tuple(ticks) if powers else None,
    )
    return Chart(
        section=section,
        title=title,
        caption=", ".join(filter(None, (caption, "" if unit == "%" else unit))),
        spec=spec,
        columns=columns,
    )


@lru_cache(maxsize=64)
def _spec(
    keys: tuple[str, ...],
    x_title: str,
    *,
    percent: bool,
    banded: bool,
    few: bool,
    ticks: tuple[float, ...] | None,
) -> Mapping[str, Any]:
    """Kept, because most charts share one, and those of a run that is going are made each step."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    scale = alt.Scale(zero=False, nice=False) if ticks is None else alt.Scale(type="log", base=2)
    axis = alt.Axis(
        grid=False, format="d", **({"tickCount": 5} if ticks is None else {"values": list(ticks)})
    )
    base = alt.Chart(alt.NamedData(ROWS)).encode(
        x=alt.X("x:Q", title=x_title, scale=scale, axis=axis)
    )
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(zero=False),
        axis=alt.Axis(format=".2~%" if percent else ".4~g", tickCount=5),
    )
    line = base.mark_line(strokeWidth=1.75, interpolate="linear", strokeJoin="round").encode(
        y=y, color=run_colour(keys)
    )
    points = base.mark_point(filled=True, size=22).encode(y=y, color=run_colour(keys))
    near, rule = _near_rule(base, keys, x_title, ".1%" if percent else ".4~g")
    layers: list[Any] = [line, rule]
    if banded:
        layers.insert(
            0,
            base.mark_area(opacity=0.15).encode(
                y=alt.Y("lo:Q", title=None), y2="hi:Q", color=run_colour(keys)
            ),
        )
    seen = alt.when(near).then(alt.value(1)).otherwise(alt.value(1 if few else 0))
    layers.insert(-1, points.encode(opacity=seen))
    return finished(alt.layer(*layers), keys, height=HEIGHT)


def _near_rule(base: Any, keys: Sequence[str], x_title: str, exact: str) -> tuple[Any, Any]:
    """The step nearest to the pointer, and a line there that tells every run's value."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

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
    return near, rule
