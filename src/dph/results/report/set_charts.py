"""Charts of sets, whose titles say what they show: Pass@k over k, first try against Pass@k."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dph.results.charts.palette import Look
from dph.results.charts.panels import PERCENT, nominal, quantity
from dph.results.report.charts import Chart, finished, line_chart, page_channels, training_charts
from dph.results.report.report_data import ReportData, rows_over_seeds
from dph.results.vocabulary import K_AXIS, metric_title, set_title, table_ks
from dph.runs.evaluate.comparison import ComparisonRow


def report_charts(data: ReportData) -> list[Chart]:
    """Pass@k, fronts and training; none of what no run has."""
    return [*set_charts(data), *training_charts(data.runs, data.groups)]


def set_charts(data: ReportData) -> Iterator[Chart]:
    """Pass@k and fronts of every set, of runs and of groups of seeds.

    Rows are against the first run of a set. Where runs began with several policies that is not
    what each began with, so titles state no finding.
    """
    labels = {key: label for key, (label, _) in data.drawn.items()}
    looks = {key: look for key, (_, look) in data.drawn.items()}
    rows = {name: _with_groups(data, of) for name, of in data.comparison.items()}
    several = len({run.baseline for run in data.runs} - {None}) > 1
    for name, of in rows.items():
        chart = pass_at_k_chart(name, of, labels, looks, data.folded)
        yield replace(chart, title=reach_finding(name, of, labels, ())) if several else chart
    for name, of in rows.items():
        k = table_ks(max(row.k or 0 for row in of))[-1]
        front = front_chart(name, of, k, labels, looks, data.folded)
        if front is not None:
            yield replace(front, title=set_title(name)) if several else front


def _with_groups(data: ReportData, rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    of_run: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        of_run.setdefault(row.run, []).append(row)
    over = [
        row
        for group in data.groups
        for row in rows_over_seeds(group.key, [of_run.get(key, []) for key in group.runs])
    ]
    return [*rows, *over]


def pass_at_k_chart(
    set_name: str,
    rows: Sequence[ComparisonRow],
    labels: Mapping[str, str],
    looks: Mapping[str, Look],
    told: Sequence[str],
) -> Chart:
    """Pass@k of every run over k, with 95% bands; the title speaks of those in ``told``."""
    curve = [row for row in rows if row.k]
    columns: dict[str, list[Any]] = {
        "run": [row.run for row in curve],
        "x": [row.k for row in curve],
        "value": [row.value for row in curve],
        "lo": [row.lo for row in curve],
        "hi": [row.hi for row in curve],
    }
    shown = {key: looks[key] for key in columns["run"]}
    return line_chart(
        "pass_at_k",
        reach_finding(set_name, rows, labels, told),
        columns,
        shown,
        x_title=K_AXIS,
        unit="%",
        name=set_name,
        powers=True,
    )


_MOST_NAMED = 2


def reach_finding(
    set_name: str,
    rows: Sequence[ComparisonRow],
    labels: Mapping[str, str],
    told: Sequence[str],
) -> str:
    """The runs that differ from the baseline at the largest k, and in which direction."""
    k = max(row.k or 0 for row in rows)
    start, base = f"{set_title(set_name)}, {metric_title(f'pass_at_{k}')}", _baseline(rows, labels)
    ways = _directions(rows, f"pass_at_{k}", told)
    if not ways:
        return start
    above = _named([key for key, way in ways.items() if way > 0], len(ways), labels)
    below = _named([key for key, way in ways.items() if way < 0], len(ways), labels)
    if not below and not above:
        return f"{start}: {_tie(ways, base, labels)}"
    second = "it" if below else base
    said = [f"{below} below {base}" if below else "", f"{above} above {second}" if above else ""]
    return f"{start}: {', '.join(filter(None, said))}"


def traded_finding(
    set_name: str,
    rows: Sequence[ComparisonRow],
    k: int,
    labels: Mapping[str, str],
    told: Sequence[str],
) -> str:
    """The runs whose first answers got better while fewer problems stayed within reach."""
    start, base = set_title(set_name), _baseline(rows, labels)
    first, reach = (_directions(rows, metric, told) for metric in ("greedy", f"pass_at_{k}"))
    if not reach:
        return start
    traded = [key for key in first if first[key] > 0 and reach[key] < 0]
    both = [key for key in first if first[key] > 0 and reach[key] >= 0]
    lost = [key for key in first if first[key] <= 0 and reach[key] < 0]
    findings = {
        "better first answers for fewer problems within reach": traded,
        "better first answers, no reach lost beyond chance": both,
        "fewer problems within reach": lost,
    }
    said = [
        f"{_named(keys, len(first), labels)}: {text}" for text, keys in findings.items() if keys
    ]
    return f"{start} \N{EN DASH} {'; '.join(said) or _tie(first, base, labels)}"


def _baseline(rows: Sequence[ComparisonRow], labels: Mapping[str, str]) -> str:
    return next(labels[row.run] for row in rows if row.difference is None)


def _directions(rows: Sequence[ComparisonRow], metric: str, told: Sequence[str]) -> dict[str, int]:
    """1, -1 or 0 (cannot be told) for each of ``told`` but the baseline."""
    return {
        row.run: (row.difference.lo > 0) - (row.difference.hi < 0)
        for row in rows
        if row.metric == metric and row.difference is not None and row.run in told
    }


def _named(keys: Sequence[str], of: int, labels: Mapping[str, str]) -> str:
    if len(keys) > _MOST_NAMED:
        return f"{len(keys)} of {of} runs"
    return " and ".join(labels[key] for key in keys)


def _tie(ways: Mapping[str, int], base: str, labels: Mapping[str, str]) -> str:
    if len(ways) == 1:
        return f"{labels[next(iter(ways))]} cannot be told from {base}"
    return f"no run can be told from {base}"


def front_chart(
    set_name: str,
    rows: Sequence[ComparisonRow],
    k: int,
    labels: Mapping[str, str],
    looks: Mapping[str, Look],
    told: Sequence[str],
) -> Chart | None:
    """A point a run with its 95% intervals; None where there are no greedy answers.

    The title speaks of the runs in ``told``, which the legend names.
    """
    found = {(row.metric, row.run): row for row in rows}
    keys = [run for run in labels if ("greedy", run) in found]
    if not keys:
        return None
    columns = _columns(found, keys, k, labels)
    legend = {"values": [labels[key] for key in keys if key in told], **_LEGEND}
    runs = {
        name: {**channel, **nominal("label"), "legend": legend}
        for name, channel in page_channels({key: looks[key] for key in keys}).items()
    }
    for channel in runs.values():
        channel["scale"] = {**channel["scale"], "domain": columns["label"]}
    ends = {axis: _domain(columns[f"{axis}_lo"], columns[f"{axis}_hi"]) for axis in "xy"}
    titles = {"x": "first try", "y": metric_title(f"pass_at_{k}")}
    at = {
        axis: quantity(axis, titles[axis], scale={"domain": ends[axis], "nice": False}, axis=_AXIS)
        for axis in "xy"
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
        name=set_name,
        title=traded_finding(set_name, rows, k, labels, told),
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
_AXIS = {
    "format": PERCENT,
    "tickCount": 5,
    "labelExpr": "datum.value > 1.0001 ? '' : datum.label",
}


def _domain(lows: Sequence[float], highs: Sequence[float]) -> list[float]:
    """A little more than the intervals take, and never so little that noise looks large."""
    low, high = min(lows), max(highs)
    room = max(0.08 * (high - low), 0.01)
    return [low - room, high + room]


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
