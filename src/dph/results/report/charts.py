"""Every chart of a report, in the order of the page."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

from dph.results.charts.palette import Look, band_opacity
from dph.results.report.chart import ROWS, Chart, finished, run_colour, run_dash, run_shape
from dph.results.report.front_chart import front_chart
from dph.results.report.report_data import ReportData, ReportRun
from dph.results.vocabulary import K_AXIS, STEP_AXIS, log_titles, set_title, table_ks
from dph.runs.evaluate.comparison import ComparisonRow

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
