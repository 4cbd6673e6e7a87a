"""Charts of a page: lines over steps or over k, and those of training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from dph.results.charts.palette import Look, band_opacity
from dph.results.over_seeds import mean_over_seeds
from dph.results.report.report_data import ReportRun, SeedGroup
from dph.results.vocabulary import LOG_PARTS, STEP_AXIS, log_part, log_titles

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
    """``columns`` hold equally many values; ``section`` is the part of the page it belongs to.

    ``name`` stays when the title, which may state a finding, changes. ``part`` is a heading in the
    section that charts are gathered under.
    """

    section: str
    name: str
    title: str
    caption: str
    spec: Mapping[str, Any]
    columns: Mapping[str, Sequence[Any]]
    part: str = ""

    def document(self) -> dict[str, Any]:
        """For the page's index."""
        return {
            "section": self.section,
            "name": self.name,
            "title": self.title,
            "caption": self.caption,
            "part": self.part,
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
    name: str = "",
    powers: bool = False,
) -> Chart:
    """A line of ``value`` over ``x`` for each ``run``; ``lo`` and ``hi`` make a band.

    ``name`` is the chart's [default: its title]. ``powers`` puts x on a scale of powers of two. A
    pointer near a step shows every run's value.
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
        name=name or title,
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
        axis=alt.Axis(format=".2~%" if percent else ".6~g", tickCount=5),
    )
    line = base.mark_line(strokeWidth=_LINE, interpolate="linear", strokeJoin="round").encode(
        y=y, color=run_colour(keys), strokeDash=run_dash(looks, _LINE)
    )
    points = base.mark_point(filled=True, size=22).encode(
        y=y, color=run_colour(keys), shape=run_shape(looks)
    )
    near, rule = _near_rule(base, keys, x_title, ".1%" if percent else ".5~g")
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
_MANY_RUNS = 12
"""More runs than these share that many lines' points."""


def training_charts(runs: Sequence[ReportRun], groups: Sequence[SeedGroup] = ()) -> list[Chart]:
    """A chart for each metric that a run's log has and that is not always 0.

    ``groups`` of seeds are lines too: means over seeds at the steps that all of them have, with
    95% t-intervals over seeds.
    """
    logs = {run.key: run.log for run in runs if run.log}
    looks = {one.key: one.look for one in runs} | {one.key: one.look for one in groups}
    names = list(dict.fromkeys(name for log in logs.values() for row in log for name in row))
    whole = [group for group in groups if all(key in logs for key in group.runs)]
    shown = {key: looks[key] for key in (*logs, *(group.key for group in whole))}
    made = [
        replace(chart, part=log_part(name))
        for name, titled in log_titles(names).items()
        if (chart := _training_chart(name, titled, logs, shown, whole)) is not None
    ]
    return sorted(_once(made), key=lambda chart: LOG_PARTS.index(chart.part))


def _once(charts: Sequence[Chart]) -> list[Chart]:
    """Of charts with equal values the first, whose caption names the others."""
    kept: dict[str, Chart] = {}
    for chart in charts:
        values = str(sorted(chart.columns.items()))
        if (first := kept.get(values)) is None:
            kept[values] = chart
        else:
            caption = ", ".join(filter(None, (first.caption, f"equal to {chart.title.lower()}")))
            kept[values] = replace(first, caption=caption)
    return list(kept.values())


Points = list[tuple[float, ...]]
"""Points of a line: step, value, and where there are intervals low and high."""


def _training_chart(
    name: str,
    title_and_unit: tuple[str, str],
    logs: Mapping[str, Sequence[Mapping[str, Any]]],
    looks: Mapping[str, Look],
    groups: Sequence[SeedGroup],
) -> Chart | None:
    title, unit = title_and_unit
    banded = any(_is_number(row.get(f"{name}_lo")) for log in logs.values() for row in log)
    most = MOST_POINTS * min(len(logs), _MANY_RUNS) // max(1, len(logs))
    lines: dict[str, Points] = {}
    thinned = 1
    for key, log in logs.items():
        points = _points_of(name, log, banded=banded)
        width = max(1, -(-len(points) // most))
        thinned = max(thinned, width)
        lines[key] = list(_means(points, width))
    lines |= {group.key: over_seeds([lines[key] for key in group.runs]) for group in groups}
    wide = banded or bool(groups)
    columns: dict[str, list[Any]] = {"run": [], "x": [], "value": []}
    columns |= {"lo": [], "hi": []} if wide else {}
    for key, points in lines.items():
        for point in points:
            columns["run"].append(key)
            values = [*point, None, None][: len(columns) - 1]
            for column, value in zip(list(columns)[1:], values, strict=True):
                columns[column].append(value)
    if not any(columns["value"]):
        return None
    caption = f"means over {thinned} steps" if thinned > 1 else ""
    return line_chart(
        "training", title, columns, looks, x_title=STEP_AXIS, unit=unit, caption=caption, name=name
    )


def _points_of(name: str, log: Sequence[Mapping[str, Any]], *, banded: bool) -> Points:
    parts = (name, f"{name}_lo", f"{name}_hi") if banded else (name,)
    absent = 0.0 if name.startswith("outcome_") else None  # a step names the outcomes it had
    read = [(row["step"], *(row.get(part, absent) for part in parts)) for row in log]
    return [point for point in read if all(map(_is_number, point))]


def over_seeds(lines: Sequence[Points]) -> Points:
    """Mean and 95% t-interval over seeds at each step that every seed has.

    >>> over_seeds([[(1, 0.5), (2, 0.0)], [(1, 0.5)]])
    [(1, 0.5, 0.5, 0.5)]
    """
    by_step = [{point[0]: point[1] for point in line} for line in lines]
    points: Points = []
    for step in by_step[0]:
        if all(step in one for one in by_step):
            mean = mean_over_seeds([one[step] for one in by_step])
            points.append((step, mean.mean, *(mean.interval() or (mean.mean, mean.mean))))
    return points


def _means(points: Sequence[tuple[float, ...]], width: int) -> Iterator[tuple[float, ...]]:
    """Neighbouring points as one: the last step, and means of what follows it."""
    for start in range(0, len(points), width):
        part = points[start : start + width]
        steps, *values = zip(*part, strict=True)
        yield steps[-1], *(sum(column) / len(part) for column in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
