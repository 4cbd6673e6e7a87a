"""Every chart of a report, in the order of the page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from dph.results.charts.palette import Look, band_opacity
from dph.results.report.report_data import ReportData, ReportRun
from dph.results.vocabulary import K_AXIS, STEP_AXIS, log_titles, metric_title, set_title, table_ks
from dph.runs.evaluate.comparison import ComparisonRow

if TYPE_CHECKING:
    import altair as alt


# A chart of the page: a Vega-Lite specification and the columns that it draws.
#
# Runs are drawn in the page's own colours (``--r0`` ...: one for light, one for dark) and filtered
# by the parameter ``shown``, which the page sets when a run is switched on or off. Texts (labels,
# names of sets) are data or titles, never field names or expressions.

ROWS = "rows"
"""The name of the data in every specification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """``columns`` hold equally many values; ``section`` is the part of the page it belongs to."""

    section: str
    title: str
    caption: str
    spec: Mapping[str, Any]
    columns: Mapping[str, Sequence[Any]]

    def document(self) -> dict[str, Any]:
        """For the page's index."""
        return {
            "section": self.section,
            "title": self.title,
            "caption": self.caption,
            "spec": self.spec,
            "columns": self.columns,
        }


def _by_run(keys: Iterable[str], drawn: Sequence[Any]) -> dict[str, Any]:
    """A channel that tells the runs apart, without a legend: the page's own switches are one."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    return {"legend": None, "scale": alt.Scale(domain=list(keys), range=list(drawn))}


def run_colour(keys: Sequence[str]) -> "alt.Color":
    """The colours of the runs."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    return alt.Color("run:N", **_by_run(keys, [f"var(--{key})" for key in keys]))


def run_shape(looks: Mapping[str, Look]) -> "alt.Shape":
    """The runs' markers, those of every picture."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    return alt.Shape("run:N", **_by_run(looks, [look.shape for look in looks.values()]))


def run_dash(looks: Mapping[str, Look], width: float) -> "alt.StrokeDash":
    """The dashes of the runs' lines of a width in pixels; most are solid."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    dashes = [[width * part for part in look.dash] or [1, 0] for look in looks.values()]
    return alt.StrokeDash("run:N", **_by_run(looks, dashes))


def finished(chart: "alt.LayerChart", keys: Iterable[str], *, height: int) -> dict[str, Any]:
    """The specification, as wide as its place in the page."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    shown = alt.param(name="shown", value=list(keys))
    whole = chart.add_params(shown).transform_filter("indexof(shown, datum.run) >= 0")
    spec: dict[str, Any] = (
        whole.properties(width="container", height=height)
        .configure(background="transparent", font="inherit")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor="currentColor",
            titleColor="currentColor",
            tickColor="currentColor",
            domainColor="currentColor",
            gridColor="currentColor",
            gridOpacity=0.1,
            domainOpacity=0.4,
            tickOpacity=0.4,
            labelFontSize=11,
            titleFontSize=11,
            titleFontWeight="normal",
        )
        .to_dict()
    )
    return spec


# Lines over steps or over k, one a run, with a band where there are intervals.

HEIGHT, _LINE = 180, 1.75
_FEW = 10
"""So many steps are points as well, so that a single one can be seen."""


def line_chart(
    section: str,
    title: str,
    columns: Mapping[str, Sequence[Any]],
    looks: Mapping[str, Look],
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
        tuple(looks.items()),
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
    looks_of_keys: tuple[tuple[str, Look], ...],
    x_title: str,
    *,
    percent: bool,
    banded: bool,
    few: bool,
    ticks: tuple[float, ...] | None,
) -> Mapping[str, Any]:
    """Kept, because most charts share one, and those of a run that is going are made each step."""
    import altair as alt  # noqa: PLC0415 - slow, and an extra

    looks = dict(looks_of_keys)
    keys = list(looks)
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
    line = base.mark_line(strokeWidth=_LINE, interpolate="linear", strokeJoin="round").encode(
        y=y, color=run_colour(keys), strokeDash=run_dash(looks, _LINE)
    )
    points = base.mark_point(filled=True, size=22).encode(
        y=y, color=run_colour(keys), shape=run_shape(looks)
    )
    near, rule = _near_rule(base, keys, x_title, ".1%" if percent else ".4~g")
    layers: list[Any] = [line, rule]
    if banded:
        layers.insert(
            0,
            base.mark_area(opacity=band_opacity(len(keys))).encode(
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


MOST_POINTS = 400
"""Points of a line; a longer log is shown in means over neighbouring steps, and says so."""


def report_charts(data: ReportData) -> list[Chart]:
    """Pass@k, fronts and training; none of what no run has."""
    return [*set_charts(data), *training_charts(data.runs)]


def set_charts(data: ReportData) -> Iterator[Chart]:
    """Pass@k and fronts of every set."""
    labels = {run.key: run.label for run in data.runs}
    looks = {run.key: run.look for run in data.runs}
    for name, rows in data.comparison.items():
        yield pass_at_k_chart(name, rows, looks)
    for name, rows in data.comparison.items():
        samples = max(_k_of(row) for row in rows)
        chart = front_chart(name, rows, table_ks(samples)[-1], labels, looks)
        if chart is not None:
            yield chart


def pass_at_k_chart(
    set_name: str, rows: Sequence[ComparisonRow], looks: Mapping[str, Look]
) -> Chart:
    """Pass@k of every run over k, with 95% bands."""
    curve = [row for row in rows if _k_of(row)]
    columns: dict[str, list[Any]] = {
        "run": [row.run for row in curve],
        "x": [_k_of(row) for row in curve],
        "value": [row.value for row in curve],
        "lo": [row.lo for row in curve],
        "hi": [row.hi for row in curve],
    }
    shown = {key: looks[key] for key in columns["run"]}
    return line_chart(
        "pass_at_k", set_title(set_name), columns, shown, x_title=K_AXIS, unit="%", powers=True
    )


def training_charts(runs: Sequence[ReportRun]) -> list[Chart]:
    """A chart for each metric that a run's log has and that is not always 0; then of after RL."""
    looks = {run.key: run.look for run in runs}
    return [
        *_log_charts("training", {run.key: run.log for run in runs if run.log}, looks),
        *_log_charts("after_rl", {run.key: run.after_rl for run in runs if run.after_rl}, looks),
    ]


def _log_charts(
    section: str, logs: Mapping[str, Sequence[Mapping[str, Any]]], looks: Mapping[str, Look]
) -> list[Chart]:
    names = list(dict.fromkeys(name for log in logs.values() for row in log for name in row))
    shown = {key: looks[key] for key in logs}
    return [
        chart
        for name, titled in log_titles(names).items()
        if (chart := _training_chart(section, name, titled, logs, shown)) is not None
    ]


def _training_chart(
    section: str,
    name: str,
    title_and_unit: tuple[str, str],
    logs: Mapping[str, Sequence[Mapping[str, Any]]],
    looks: Mapping[str, Look],
) -> Chart | None:
    title, unit = title_and_unit
    banded = any(_is_number(row.get(f"{name}_lo")) for log in logs.values() for row in log)
    parts = (name, f"{name}_lo", f"{name}_hi") if banded else (name,)
    columns: dict[str, list[Any]] = {"run": [], "x": []}
    columns |= {column: [] for column in ("value", "lo", "hi")[: len(parts)]}
    thinned = 1
    for key, log in logs.items():
        absent = 0.0 if name.startswith("outcome_") else None  # a step names the outcomes it had
        read = [(row["step"], *(row.get(part, absent) for part in parts)) for row in log]
        points = [point for point in read if all(map(_is_number, point))]
        width = -(-len(points) // MOST_POINTS)
        thinned = max(thinned, width)
        for step, *values in _means(points, max(width, 1)):
            columns["run"].append(key)
            columns["x"].append(step)
            for column, value in zip(("value", "lo", "hi"), values, strict=False):
                columns[column].append(value)
    if not any(columns["value"]):
        return None
    caption = f"means over {thinned} steps" if thinned > 1 else ""
    return line_chart(section, title, columns, looks, x_title=STEP_AXIS, unit=unit, caption=caption)


def _means(points: Sequence[tuple[float, ...]], width: int) -> Iterator[tuple[float, ...]]:
    """Neighbouring points as one: the last step, and means of what follows it."""
    for start in range(0, len(points), width):
        part = points[start : start + width]
        steps, *values = zip(*part, strict=True)
        yield steps[-1], *(sum(column) / len(part) for column in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _k_of(row: ComparisonRow) -> int:
    """The k of Pass@k; 0 of other metrics."""
    start, _, k = row.metric.rpartition("pass_at_")
    return int(k) if not start and k.isdigit() else 0


# Greedy against Pass@k: what a run is good at against what it still can do.


FRONT_WIDTH, FRONT_HEIGHT = 290, 190
"""Pixels inside the axes on a phone, the narrowest that names are laid out for."""
LETTER, LINE = 6.3, 13
"""A name's width for each of its letters, and its height, in pixels."""
_ASIDE = 7
_MOST_LEVELS = 40


def front_chart(
    set_name: str,
    rows: Sequence[ComparisonRow],
    k: int,
    labels: Mapping[str, str],
    looks: Mapping[str, Look],
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
    x_title, y_title = metric_title("greedy"), metric_title(f"pass_at_{k}")
    x = alt.X("x:Q", title=x_title, axis=axis, scale=x_scale)
    y = alt.Y("y:Q", title=y_title, axis=axis, scale=y_scale)
    colour, shape = run_colour(keys), run_shape({key: looks[key] for key in keys})
    base = alt.Chart(alt.NamedData(ROWS))
    wide = base.mark_rule(opacity=0.45).encode(
        x=alt.X("x_lo:Q", title=x_title, scale=x_scale), x2="x_hi:Q", y=y, color=colour
    )
    high = base.mark_rule(opacity=0.45).encode(
        x=x, y=alt.Y("y_lo:Q", title=y_title, scale=y_scale), y2="y_hi:Q", color=colour
    )
    point = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x,
        y=y,
        color=colour,
        shape=shape,
        tooltip=[
            alt.Tooltip("label:N"),
            alt.Tooltip("x:Q", title=x_title, format=".1%"),
            alt.Tooltip("y:Q", title=y_title, format=".1%"),
        ],
    )
    inside = zip(
        _inside(columns["x"], x_ends, FRONT_WIDTH),
        _inside(columns["y"], y_ends, FRONT_HEIGHT),
        strict=True,
    )
    places = label_places(list(inside), [len(label) for label in columns["label"]])
    columns["place"] = [f"{side} {level}" for side, level in places]
    names = _names(base.encode(x=x, y=y), places)
    return Chart(
        section="front",
        title=set_title(set_name),
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
    inside = (
        box[0] >= -_ASIDE
        and box[2] <= FRONT_WIDTH
        and box[1] >= -LINE
        and box[3] <= FRONT_HEIGHT + LINE
    )
    return inside and not any(_overlap(box, other) for other in (*marks, *taken))


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _columns(
    found: Mapping[tuple[str, str], ComparisonRow],
    keys: list[str],
    k: int,
    labels: Mapping[str, str],
) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"run": keys, "label": [labels[key] for key in keys]}
    for axis, metric in (("x", "greedy"), ("y", f"pass_at_{k}")):
        rows = [found[metric, key] for key in keys]
        columns[axis] = [row.value for row in rows]
        columns |= {f"{axis}_lo": [row.lo for row in rows], f"{axis}_hi": [row.hi for row in rows]}
    return columns


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
