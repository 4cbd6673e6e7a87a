"""Charts of a page: lines over steps or over k, and those of training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import isfinite
from typing import Any

from dph.results.charts.palette import Look
from dph.results.charts.panels import SCHEMA, Spec, config, curves, over, run_channels, values
from dph.results.over_seeds import mean_over_seeds
from dph.results.report.report_data import ReportRun, SeedGroup
from dph.results.vocabulary import LOG_PARTS, STEP_AXIS, log_part, log_titles

# A chart of the page: a Vega-Lite specification and the columns that it draws.
#
# Runs are drawn in the page's own colours (``--r0`` ...: one for light, one for dark) and filtered
# by the parameter ``shown``, which the page sets when a run is switched on or off. Texts (labels,
# names of sets) are data or titles, never field names or expressions.


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
        return {one.name: getattr(self, one.name) for one in fields(self)}


def page_channels(looks: Mapping[str, Look]) -> Mapping[str, Spec]:
    """Channels of runs in the page's colours, without a legend: the page's own switches are one."""
    return run_channels(looks, [f"var(--{key})" for key in looks])


def finished(layers: Sequence[Spec], keys: Sequence[str], *, height: int) -> Spec:
    """The specification, as wide as its place in the page."""
    return {
        "$schema": SCHEMA,
        "config": config("currentColor", background="transparent", font="inherit"),
        "data": {"name": "rows"},
        "params": [{"name": "shown", "value": list(keys)}],
        "transform": [{"filter": "indexof(shown, datum.run) >= 0"}],
        "width": "container",
        "height": height,
        "layer": list(layers),
    }


HEIGHT = 180
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
        ticks=tuple(ticks) if powers else (),
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
    ticks: tuple[float, ...],
) -> Mapping[str, Any]:
    """Kept, because most charts share one, and those of a run that is going are made each step."""
    looks = dict(looks_of_keys)
    x, exact = over(x_title, ticks), ".1%" if percent else ".5~g"
    layers = curves(
        page_channels(looks),
        x,
        values(None, percent=percent),
        banded=banded,
        opacity=_near(1, 1 if few else 0),
    )
    return finished([*layers, _rule(x, looks, exact)], list(looks), height=HEIGHT)


def _near(there: float, elsewhere: float) -> Spec:
    """Opacity at the step nearest to the pointer, and at others."""
    return {"condition": {"param": "near", "value": there, "empty": False}, "value": elsewhere}


def _rule(x: Spec, keys: Iterable[str], exact: str) -> Spec:
    """A line at the step nearest to the pointer, which tells every run's value."""
    select = {
        "type": "point",
        "fields": ["x"],
        "nearest": True,
        "on": "pointerover",
        "clear": "pointerout",
    }
    tips = [{"field": key, "type": "quantitative", "title": key, "format": exact} for key in keys]
    return {
        "transform": [{"pivot": "run", "value": "value", "groupby": ["x"]}],
        "params": [{"name": "near", "select": select}],
        "mark": {"type": "rule", "color": "currentColor"},
        "encoding": {
            "x": x,
            "opacity": _near(0.35, 0),
            "tooltip": [{"field": "x", "type": "quantitative", "title": x["title"]}, *tips],
        },
    }


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
