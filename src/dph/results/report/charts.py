"""Charts of the page: Pass@k over k, first try against Pass@k, and metrics over training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import isfinite
from typing import Any

from dph.results.charts.panels import (
    PERCENT,
    SCHEMA,
    Spec,
    config,
    curves,
    nominal,
    over,
    quantity,
    run_channels,
    values,
)
from dph.results.over_seeds import mean_over_seeds
from dph.results.report.report_data import ReportData, ReportRun, SeedGroup, rows_over_seeds
from dph.results.vocabulary import (
    K_AXIS,
    LOG_PARTS,
    STEP_AXIS,
    Look,
    log_part,
    log_titles,
    metric_title,
    set_title,
    table_ks,
)
from dph.runs.evaluate.comparison import ComparisonRow

# Runs are drawn in the page's own colours (``--r0`` ...: one for light, one for dark) and filtered
# by the parameter ``shown``, which the page sets when a run is switched on or off. Texts (labels,
# names of sets) are data or titles, never field names or expressions.


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A Vega-Lite specification and the columns that it draws, in a ``section`` of the page.

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
        few=len(ticks) <= 10,  # points as well, so that a single one can be seen
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
    y, opacity = values(None, percent=percent), _near(1, 1 if few else 0)
    layers = curves(page_channels(looks), x, y, banded=banded, opacity=opacity)
    return finished([*layers, _rule(x, looks, exact)], list(looks), height=HEIGHT)


def _near(there: float, elsewhere: float) -> Spec:
    """Opacity at the step nearest to the pointer, and at others."""
    return {"condition": {"param": "near", "value": there, "empty": False}, "value": elsewhere}


def _rule(x: Spec, keys: Iterable[str], exact: str) -> Spec:
    """A line at the step nearest to the pointer, which tells every run's value."""
    select = {"type": "point", "fields": ["x"], "nearest": True}
    select |= {"on": "pointerover", "clear": "pointerout"}
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


def training_charts(runs: Sequence[ReportRun], groups: Sequence[SeedGroup] = ()) -> list[Chart]:
    """A chart for each metric of the logs that is not always 0.

    ``groups`` of seeds are lines of means at the steps that all seeds have, with t-intervals.
    """
    logs = {run.key: run.log for run in runs if run.log}
    looks = {one.key: one.look for one in runs} | {one.key: one.look for one in groups}
    names = list(dict.fromkeys(name for log in logs.values() for row in log for name in row))
    whole = [group for group in groups if all(key in logs for key in group.runs)]
    shown = {key: looks[key] for key in (*logs, *(group.key for group in whole))}
    kept: dict[str, Chart] = {}
    for name, titled in log_titles(names).items():
        if (chart := _training_chart(name, titled, logs, shown, whole)) is None:
            continue
        values = str(sorted(chart.columns.items()))
        if (first := kept.get(values)) is None:
            kept[values] = replace(chart, part=log_part(name))
        else:  # of charts with equal values the first, whose caption names the others
            caption = ", ".join(filter(None, (first.caption, f"equal to {chart.title.lower()}")))
            kept[values] = replace(first, caption=caption)
    return sorted(kept.values(), key=lambda chart: LOG_PARTS.index(chart.part))


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
    # Points of a line; a longer log is shown in means over neighbouring steps, and says so. More
    # than 12 runs share the points of 12 lines.
    most = 400 * min(len(logs), 12) // max(1, len(logs))
    lines: dict[str, Points] = {}
    thinned = 1
    for key, log in logs.items():
        points = _points_of(name, log, banded=banded)
        width = max(1, -(-len(points) // most))
        thinned = max(thinned, width)
        lines[key] = list(_means(points, width))
    lines |= {group.key: over_seeds([lines[key] for key in group.runs]) for group in groups}
    rows = [(key, *point, None, None) for key, points in lines.items() for point in points]
    names = ("run", "x", "value", *(("lo", "hi") if banded or groups else ()))
    columns = {column: [row[i] for row in rows] for i, column in enumerate(names)}
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


# Charts of sets. Their titles state a finding.


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSet:
    """A set's rows against its first run; titles speak of the runs in ``told``."""

    name: str
    rows: Sequence[ComparisonRow]
    labels: Mapping[str, str]
    told: Sequence[str]

    def reach_finding(self) -> str:
        """The runs that differ from the baseline at the largest k, and in which direction."""
        metric = f"pass_at_{max(row.k or 0 for row in self.rows)}"
        start, base = f"{set_title(self.name)}, {metric_title(metric)}", self._baseline
        ways = self._directions(metric)
        if not ways:
            return start
        above = self._named([key for key, way in ways.items() if way > 0], len(ways))
        below = self._named([key for key, way in ways.items() if way < 0], len(ways))
        if not below and not above:
            return f"{start}: {self._tie(ways)}"
        said = [f"{below} below {base}"] if below else []
        said += [f"{above} above {'it' if below else base}"] if above else []
        return f"{start}: {', '.join(said)}"

    def traded_finding(self, k: int) -> str:
        """The runs whose first answers got better while fewer problems stayed within reach."""
        first, reach = (self._directions(metric) for metric in ("greedy", f"pass_at_{k}"))
        if not reach:
            return set_title(self.name)
        traded = [key for key in first if first[key] > 0 and reach[key] < 0]
        kept = [key for key in first if first[key] > 0 and reach[key] >= 0]
        fewer = [key for key in first if first[key] <= 0 and reach[key] < 0]
        findings = {
            "better first answers for fewer problems within reach": traded,
            "better first answers, no reach lost beyond chance": kept,
            "fewer problems within reach": fewer,
        }
        said = [f"{self._named(of, len(first))}: {text}" for text, of in findings.items() if of]
        return f"{set_title(self.name)} \N{EN DASH} {'; '.join(said) or self._tie(first)}"

    @property
    def _baseline(self) -> str:
        return next(self.labels[row.run] for row in self.rows if row.difference is None)

    def _directions(self, metric: str) -> dict[str, int]:
        """1, -1 or 0 (cannot be told) for each of ``told`` but the baseline."""
        return {
            row.run: (row.difference.lo > 0) - (row.difference.hi < 0)
            for row in self.rows
            if row.metric == metric and row.difference is not None and row.run in self.told
        }

    def _named(self, keys: Sequence[str], of: int) -> str:
        if len(keys) > 2:
            return f"{len(keys)} of {of} runs"
        return " and ".join(self.labels[key] for key in keys)

    def _tie(self, ways: Mapping[str, int]) -> str:
        who = f"{self.labels[next(iter(ways))]} cannot" if len(ways) == 1 else "no run can"
        return f"{who} be distinguished from {self._baseline}"


def report_charts(data: ReportData) -> list[Chart]:
    """Pass@k and fronts of every set, of runs and of groups of seeds, and training.

    Rows are against the first run of a set. Where runs began with several policies that is not
    what each began with, so titles state no finding.
    """
    labels = {key: label for key, (label, _) in data.drawn.items()}
    looks = {key: look for key, (_, look) in data.drawn.items()}
    several = len({run.baseline for run in data.runs} - {None}) > 1
    told = () if several else data.folded
    sets = []
    for name, rows in data.comparison.items():
        of_run: dict[str, list[ComparisonRow]] = {}
        for row in rows:
            of_run.setdefault(row.run, []).append(row)
        every = list(rows)
        for group in data.groups:
            every += rows_over_seeds(group.key, [of_run.get(key, []) for key in group.runs])
        sets.append(ComparedSet(name=name, rows=every, labels=labels, told=told))
    of_k = [pass_at_k_chart(one, looks) for one in sets]
    fronts = filter(None, [front_chart(one, looks, shown=data.folded) for one in sets])
    return [*of_k, *fronts, *training_charts(data.runs, data.groups)]


def pass_at_k_chart(of: ComparedSet, looks: Mapping[str, Look]) -> Chart:
    """Pass@k of every run over k, with 95% bands."""
    curve = [row for row in of.rows if row.k]
    columns = {name: [getattr(row, name) for row in curve] for name in ("run", "value", "lo", "hi")}
    return line_chart(
        "pass_at_k",
        of.reach_finding(),
        columns | {"x": [row.k for row in curve]},
        {key: looks[key] for key in columns["run"]},
        x_title=K_AXIS,
        unit="%",
        name=of.name,
        powers=True,
    )


def front_chart(
    of: ComparedSet, looks: Mapping[str, Look], *, shown: Sequence[str]
) -> Chart | None:
    """A point a run with its 95% intervals; None where there are no greedy answers.

    The legend names the runs in ``shown``.
    """
    found = {(row.metric, row.run): row for row in of.rows}
    keys = [run for run in of.labels if ("greedy", run) in found]
    if not keys:
        return None
    k = table_ks(max(row.k or 0 for row in of.rows))[-1]
    columns: dict[str, list[Any]] = {"run": keys, "label": [of.labels[key] for key in keys]}
    titles = {"x": "first try", "y": metric_title(f"pass_at_{k}")}
    at = {}
    for axis, metric in (("x", "greedy"), ("y", f"pass_at_{k}")):
        rows = [found[metric, key] for key in keys]
        for end, name in (("", "value"), ("_lo", "lo"), ("_hi", "hi")):
            columns[axis + end] = [getattr(row, name) for row in rows]
        low, high = min(columns[f"{axis}_lo"]), max(columns[f"{axis}_hi"])
        room = max(0.08 * (high - low), 0.01)  # never so little that noise looks large
        scale = {"domain": [low - room, high + room], "nice": False}
        at[axis] = quantity(axis, titles[axis], scale=scale, axis=_AXIS)
    legend = {"values": [of.labels[key] for key in keys if key in shown], **_LEGEND}
    runs = {
        name: channel
        | nominal("label", scale={**channel["scale"], "domain": columns["label"]}, legend=legend)
        for name, channel in page_channels({key: looks[key] for key in keys}).items()
    }
    rules = [
        {
            "mark": {"type": "rule", "opacity": 0.45},
            "encoding": {
                **at,
                axis: {**at[axis], "field": f"{axis}_lo"},
                f"{axis}2": {"field": f"{axis}_hi"},
                "color": runs["color"],
            },
        }
        for axis in "xy"
    ]
    tips = [quantity(axis, titles[axis], format=".1%") for axis in "xy"]
    point = {
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
        "encoding": {
            **at,
            "color": runs["color"],
            "shape": runs["shape"],
            "tooltip": [nominal("label"), *tips],
        },
    }
    return Chart(
        section="front",
        name=of.name,
        title=of.traded_finding(k),
        caption="",
        spec=finished([*rules, point], keys, height=220),
        columns=columns,
    )


_LEGEND = {
    "orient": "bottom",
    "title": None,
    "columns": 2,
    "labelColor": "currentColor",
    "symbolOpacity": 1,
}
_AXIS = {"format": PERCENT, "tickCount": 5, "labelExpr": "datum.value > 1.0001 ? '' : datum.label"}
