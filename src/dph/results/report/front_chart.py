"""Greedy against Pass@k: what a run is good at against what it still can do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dph.results.charts.palette import set_label
from dph.results.report.chart import ROWS, Chart, finished, run_colour
from dph.runs.evaluate.comparison import ComparisonRow

_STAR = (
    "M0,-1.6L0.36,-0.494L1.522,-0.494L0.58,0.189L0.941,1.294L0,0.611L-0.941,1.294"
    "L-0.58,0.189L-1.522,-0.494L-0.36,-0.494Z"
)
_SHAPES = {
    "": "M-1.1,0A1.1,1.1,0,1,1,1.1,0A1.1,1.1,0,1,1,-1.1,0M-0.6,0A0.6,0.6,0,1,0,0.6,0"
    "A0.6,0.6,0,1,0,-0.6,0Z",
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "<": "triangle-left",
    ">": "triangle-right",
    "P": "cross",
    "*": _STAR,
    "X": "M-1.1,-0.7L-0.7,-1.1L0,-0.4L0.7,-1.1L1.1,-0.7L0.4,0L1.1,0.7L0.7,1.1L0,0.4L-0.7,1.1"
    "L-1.1,0.7L-0.4,0Z",
    "p": "M0,-1.2L1.141,-0.371L0.705,0.971L-0.705,0.971L-1.141,-0.371Z",
    "h": "M0,-1.2L1.039,-0.6L1.039,0.6L0,1.2L-1.039,0.6L-1.039,-0.6Z",
}
"""Markers of the palette as Vega draws them."""
WIDTH, HEIGHT = 290, 190
"""Pixels inside the axes on a phone, the narrowest that names are laid out for."""
LETTER, LINE = 6.3, 13
"""A name's width for each of its letters, and its height, in pixels."""
_ASIDE = 7
_MOST_LEVELS = 40


def front_chart(
    set_name: str,
    rows: Sequence[ComparisonRow],
    k: int,
    labels: dict[str, str],
    markers: Mapping[str, str],
) -> Chart | None:
    """A point a run with its 95% intervals; None where there are no greedy answers."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    found = {(row.metric, row.run): row for row in rows}
    keys = [run for run in labels if ("greedy", run) in found]
    if not keys:
        return None
    columns = _columns(found, keys, k, labels)
    axis = alt.Axis(format=".2~%", tickCount=5, labelExpr="datum.value > 1.0001 ? '' : datum.label")
    x_ends, y_ends = (_domain(columns[f"{name}_lo"], columns[f"{name}_hi"]) for name in "xy")
    x_scale = alt.Scale(domain=list(x_ends), nice=False)
    y_scale = alt.Scale(domain=list(y_ends), nice=False)
    x = alt.X("x:Q", title="greedy", axis=axis, scale=x_scale)
    y = alt.Y("y:Q", title=f"Pass@{k}", axis=axis, scale=y_scale)
    colour = run_colour(keys)
    shape = alt.Shape(
        "run:N",
        legend=None,
        scale=alt.Scale(domain=keys, range=[_SHAPES[markers[key]] for key in keys]),
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
    inside = zip(
        _inside(columns["x"], x_ends, WIDTH), _inside(columns["y"], y_ends, HEIGHT), strict=True
    )
    places = label_places(list(inside), [len(label) for label in columns["label"]])
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


def _inside(values: Sequence[float], ends: tuple[float, float], pixels: float) -> list[float]:
    """Positions of values of an axis between ``ends``, in pixels."""
    return [pixels * (value - ends[0]) / (ends[1] - ends[0]) for value in values]


Box = tuple[float, float, float, float]


def label_places(
    points: Sequence[tuple[float, float]], letters: Sequence[int]
) -> list[tuple[str, int]]:
    """The side of each point that its name stands on, and by how many lines it is raised.

    ``points`` are pixels from the lower left corner. No name lies on another or on a point, as far
    as ``_MOST_LEVELS`` lines go.

    >>> label_places([(50, 90), (50, 90), (280, 20)], [5, 5, 5])
    [('right', 0), ('left', 0), ('left', 0)]
    """
    marks = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    taken: list[Box] = []
    places = []
    for point, count in zip(points, letters, strict=True):
        place = next(
            (one for one in _candidates() if _is_free(label_box(point, count, *one), marks, taken)),
            ("right", 0),
        )
        taken.append(label_box(point, count, *place))
        places.append(place)
    return places


def label_box(point: tuple[float, float], letters: int, side: str, level: int) -> Box:
    """Left, lower, right and upper edge of a name."""
    x, y = point
    left = x + _ASIDE if side == "right" else x - _ASIDE - LETTER * letters
    lower = y + 6 + LINE * level
    return left, lower, left + LETTER * letters, lower + LINE - 1


def _candidates() -> Iterator[tuple[str, int]]:
    """Near the point first: above it, below it, and so on outwards."""
    for distance in range(_MOST_LEVELS):
        for level in dict.fromkeys((distance, -distance - 1)):
            yield from (("right", level), ("left", level))


def _is_free(box: Box, marks: Sequence[Box], taken: Sequence[Box]) -> bool:
    inside = box[0] >= -_ASIDE and box[2] <= WIDTH and box[1] >= -LINE and box[3] <= HEIGHT + LINE
    return inside and not any(_overlap(box, other) for other in (*marks, *taken))


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


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
    """The runs' labels next to their points, without overlap."""
    return [
        base.transform_filter(f"datum.place == '{side} {level}'")
        .mark_text(
            align="left" if side == "right" else "right",
            dx=_ASIDE if side == "right" else -_ASIDE,
            dy=-8 - LINE * level,
            fontSize=11,
            fill="currentColor",
        )
        .encode(text="label:N")
        for side, level in dict.fromkeys(places)
    ]
