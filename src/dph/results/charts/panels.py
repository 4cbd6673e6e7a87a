"""Charts as Vega-Lite: one specification each, for pictures, notebooks and the report's page."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from dph.results.vocabulary import (
    BASE,
    K_AXIS,
    MOST_STYLES,
    STEP_AXIS,
    STRENGTH_AXIS,
    Look,
    band_opacity,
    fills,
    interval_of,
    metric_title,
    unique_labels,
    value_of,
)

Spec = dict[str, Any]
"""A part of a specification, as JSON has it."""
Models = Mapping[str, Mapping[str, Any]]
"""The summary of one set for each model, the base model first."""
Looks = Mapping[str, Look]
Point = tuple[float, float, tuple[float, float] | None]
"""x, value, and the interval of the value."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
PERCENT = ".2~%"
LINE = 1.75
INK, FAINT = "#222222", "#6B6B6B"
WIDTH, HEIGHT = 390, 250
_SOLID = [1, 0]


def run_channels(looks: Looks, colours: Sequence[str] = ()) -> dict[str, Spec]:
    """Colour, marker and dashes of each run; ``colours`` are a page's own, which has no legend."""
    drawn: dict[str, Sequence[Any]] = {
        "color": colours or [look.colour for look in looks.values()],
        "shape": [look.shape for look in looks.values()],
        "strokeDash": [[LINE * part for part in of.dash] or _SOLID for of in looks.values()],
    }
    legend = {"legend": None} if colours else {}
    return {
        name: nominal("run", scale={"domain": list(looks), "range": list(of)}, **legend)
        for name, of in drawn.items()
    }


def nominal(field: str, **more: Any) -> Spec:
    return {"field": field, "type": "nominal", **more}


def quantity(field: str, title: str | None, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **more}


def over(title: str, ticks: Sequence[float] = ()) -> Spec:
    """The horizontal axis of whole numbers; ``ticks`` are powers of two, at equal distances."""
    if ticks:
        axis: Spec = {"format": "d", "grid": False, "values": list(ticks)}
        return quantity("x", title, scale={"type": "log", "base": 2}, axis=axis)
    axis = {"format": "d", "grid": False, "tickCount": 5, "tickMinStep": 1}
    return quantity("x", title, scale={"zero": False, "nice": False}, axis=axis)


def values(title: str | None, *, percent: bool) -> Spec:
    axis = {"format": PERCENT if percent else ".6~g", "tickCount": 5}
    return quantity("value", title, scale={"zero": False}, axis=axis)


def curves(
    runs: Mapping[str, Spec], x: Spec, y: Spec, *, banded: bool, opacity: Spec | None = None
) -> list[Spec]:
    """Layers of a line with its markers for each run, over a band from ``lo`` to ``hi``.

    ``opacity`` is that of the markers; without it those of rows that are not ``marked`` are left
    out.
    """
    many = len(runs["color"]["scale"]["domain"])
    at, colour = {"x": x, "y": y}, {"color": runs["color"]}
    band = {
        "mark": {"type": "area", "opacity": band_opacity(many)},
        "encoding": {"x": x, "y": quantity("lo", y["title"]), "y2": {"field": "hi"}, **colour},
    }
    line = {
        "mark": {"type": "line", "strokeWidth": LINE, "strokeJoin": "round"},
        "encoding": {**at, **colour, "strokeDash": runs["strokeDash"]},
    }
    markers: Spec = {
        "mark": {"type": "point", "filled": True, "size": 22 if opacity else 46, "opacity": 1},
        "encoding": {**at, **colour, "shape": runs["shape"]},
    }
    if opacity:
        markers["encoding"]["opacity"] = opacity
    else:
        markers["transform"] = [{"filter": "datum.marked"}]
    return [*([band] if banded else []), line, markers]


def panel(title: str, detail: str, layer: Sequence[Spec], **more: Any) -> Spec:
    """A panel with its finding in bold and, below it, what is drawn."""
    heading = {"text": wrap(title, width=52), "subtitle": wrap(detail, width=66)}
    return {"title": heading, "width": WIDTH, "height": HEIGHT, "layer": list(layer), **more}


def picture(panels: Sequence[Spec], *, most: int = 3, headline: Sequence[str] = ()) -> Spec:
    """Panels in rows of at most ``most``, as even as possible, above one legend of all runs."""
    rows = -(-len(panels) // most)
    kinds = ("color", "shape", "strokeDash")
    spec: Spec = {
        "$schema": SCHEMA,
        "config": CONFIG,
        "concat": list(panels),
        "columns": -(-len(panels) // rows),
        "spacing": 36,
        "resolve": {"scale": {**dict.fromkeys(kinds, "shared"), "fill": "independent"}},
    }
    if headline:
        spec["title"] = {"text": list(headline), "fontSize": 15, "offset": 18}
    return spec


def config(ink: str, **more: Any) -> Spec:
    """Configuration that pictures and the page's charts share."""
    colours = {f"{part}Color": ink for part in ("label", "title", "tick", "domain", "grid")}
    axis = {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"}
    opacity = {"gridOpacity": 0.1, "domainOpacity": 0.4, "tickOpacity": 0.4}
    return {"view": {"stroke": None}, "axis": {**axis, **colours, **opacity}, **more}


CONFIG = config(
    INK,
    background="white",
    padding=14,
    axisX={"labelFlush": False},
    font="Liberation Sans, Arial, Helvetica, sans-serif",
    title={
        "anchor": "start", "frame": "group", "fontSize": 13, "color": INK, "offset": 12,
        "subtitleFontSize": 11, "subtitleColor": FAINT, "subtitlePadding": 5,
    },
    legend={
        "orient": "bottom", "title": None, "columns": 6, "labelFontSize": 12, "labelColor": INK,
        "labelLimit": 300, "columnPadding": 22, "padding": 6,
        "symbolSize": 90, "symbolOpacity": 1, "symbolStrokeWidth": 0,
    },
)  # fmt: skip
"""Looks of pictures; the font is the one that vl-convert brings."""


def _lines(
    lines: Mapping[str, Sequence[Point]], looks: Looks, x: Spec, y: Spec, *, marks: int = 50
) -> Spec:
    """A panel's data and layers, with about ``marks`` markers on a line."""
    called = unique_labels(looks)
    rows = [
        {
            "run": called[name], "x": x, "value": value,
            "marked": i % max(1, len(points) // marks) == 0,
            "lo": interval and interval[0], "hi": interval and interval[1],
        }
        for name, points in lines.items()
        for i, (x, value, interval) in enumerate(points)
    ]  # fmt: skip
    runs = run_channels({called[name]: look for name, look in looks.items()})
    banded = any(row["lo"] is not None for row in rows)
    return {"data": {"values": rows}, "layer": curves(runs, x, y, banded=banded)}


def pass_at_k_panel(title: str, detail: str, models: Models, looks: Looks) -> Spec:
    """Pass@k over k with a band where there is an interval; ``looks`` are of the whole picture."""
    lines: dict[str, list[Point]] = {
        name: [
            (int(k), float(value), interval_of(model, f"pass_at_{k}"))
            for k, value in sorted(model["pass_at_k"].items(), key=lambda one: int(one[0]))
        ]
        for name, model in models.items()
    }
    ks = sorted({point[0] for points in lines.values() for point in points})
    y = values(metric_title("pass_at_k"), percent=True)
    return panel(title, detail, **_lines(lines, looks, over(K_AXIS, ks), y))


def training_panel(
    title: str,
    detail: str,
    metrics: Mapping[str, Sequence[Mapping[str, Any]]],
    looks: Looks,
    base: float | None,
) -> Spec:
    """Effective styles over the training steps, with the base model as a level line."""
    lines: dict[str, list[Point]] = {
        name: [
            (row["step"], float(row["effective_styles"]), None)
            for row in rows
            if row.get("effective_styles") is not None
        ]
        for name, rows in metrics.items()
    }
    steps = [point[0] for points in lines.values() for point in points] or [0]
    if base is not None:
        lines[BASE] = [(step, base, None) for step in dict.fromkeys((min(steps), max(steps)))]
    y = values(metric_title("effective_styles"), percent=False)
    return panel(title, detail, **_lines(lines, looks, over(STEP_AXIS), y, marks=6))


def progress_panel(
    title: str,
    detail: str,
    runs: Mapping[str, Mapping[int, Mapping[str, Any]]],
    metric: str,
    looks: Looks,
) -> Spec:
    """The metric over the steps, rising, a line a run; step 0 is the initial policy."""
    lines: dict[str, list[Point]] = {
        name: [
            (step, value, interval_of(of, metric))
            for step, of in steps.items()
            if (value := value_of(of, metric)) is not None
        ]
        for name, steps in runs.items()
    }
    y = values(metric_title(metric), percent=True)
    return panel(title, detail, **_lines(lines, looks, over(STEP_AXIS), y))


_NAMES = {"domain": False, "ticks": False, "grid": False, "labelPadding": 7}
_DOT = {"type": "point", "filled": True, "size": 56, "opacity": 1}


def shares_panel(title: str, detail: str, models: Models, colours: Mapping[str, str]) -> Spec:
    """The share of each style as one stacked bar a model, its effective number at the end.

    ``colours`` (``style_fills``) holds styles to one order and one fill each in several panels.
    """
    called = unique_labels(models)
    rows: list[Spec] = []
    for name, model in models.items():
        shares = dict.fromkeys(colours, 0.0)
        for style, share in model["styles"].items():
            shares[style if style in colours else "other"] += share
        rows += [
            {
                "model": called[name],
                "style": style,
                "rank": rank,
                "share": share,
                "text": f"{100 * share:.0f}" if share >= 0.08 else "",  # narrower: no room
            }
            for rank, (style, share) in enumerate(shares.items())
            if share
        ]
    drawn = {row["style"] for row in rows}
    fill = {"domain": [style for style in colours if style in drawn]}
    fill["range"] = [colours[style] for style in fill["domain"]]
    axis = {"format": "%", "values": [0, 0.25, 0.5, 0.75, 1], "grid": False}
    bars = {
        "x": quantity("share", None, stack="zero", scale={"domain": [0, 1]}, axis=axis),
        "y": nominal("model", title=None, sort=list(called.values()), axis=_NAMES),
        "order": {"field": "rank", "type": "ordinal"},
    }
    ends = [_effective(called[name], model) for name, model in models.items()]
    end, big = {"type": "text", "align": "left", "dx": 8}, {"fontSize": 13, "fontWeight": "bold"}
    above = -5 if any(row["interval"] for row in ends) else 0
    middle, at_end = {**bars["x"], "bandPosition": 0.5}, {"x": {"value": "width"}, "y": bars["y"]}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "stroke": "white", "strokeWidth": 0.8},
            "encoding": {**bars, "fill": nominal("style", scale=fill)},
        },
        {
            "mark": {"type": "text", "fontSize": 11, "color": INK},
            "encoding": {**bars, "x": middle, "text": nominal("text")},
        },
        {
            "data": {"values": ends},
            "mark": {**end, **big, "dy": above, "color": INK},
            "encoding": {**at_end, "text": nominal("number")},
        },
        {
            "data": {"values": ends},
            "mark": {**end, "dy": 8, "fontSize": 9.5, "color": FAINT},
            "encoding": {**at_end, "text": nominal("interval")},
        },
    ]
    return panel(title, detail, layers, data={"values": rows}, height={"step": 38})


def _effective(name: str, model: Mapping[str, Any]) -> Spec:
    number, interval = model["effective_styles"], interval_of(model, "effective_styles")
    return {
        "model": name,
        "number": "" if number is None else f"{number:.1f}",
        "interval": "" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}",
    }


def style_fills(sets: Sequence[Models]) -> dict[str, str]:
    """The fill of each of the most frequent styles of these sets, in the order of their bars.

    A style counts by its largest share: that of a collapsed model is shown even if the base model
    hardly ever used it. Styles that the first model has most of come first.
    """
    models = [model["styles"] for of_set in sets for model in of_set.values()]
    largest: dict[str, float] = {}
    for style, share in (pair for shares in models for pair in shares.items()):
        largest[style] = max(share, largest.get(style, 0.0))
    largest.pop("other", None)
    kept = sorted(largest, key=lambda style: (-largest[style], style))[:MOST_STYLES]
    return fills(sorted(kept, key=lambda style: (-models[0].get(style, 0.0), style)))


def dots_panel(
    title: str, detail: str, models: Models, metrics: Mapping[str, str], looks: Looks
) -> Spec:
    """A row for each model, with a dot for each of two fractions; ``metrics`` names them."""
    called = unique_labels(models)
    rows = [
        {"model": called[name], "metric": word, "value": value, **_ends(model, metric)}
        for name, model in models.items()
        for metric, word in metrics.items()
        if (value := value_of(model, metric)) is not None
    ]
    words = list(metrics.values())
    x = quantity("value", "share", scale={"zero": False}, axis={"format": PERCENT, "tickCount": 6})
    colour = {"domain": list(called.values()), "range": [looks[name].colour for name in called]}
    at = {
        "y": nominal("model", title=None, sort=list(called.values()), axis=_NAMES),
        "yOffset": nominal("metric", sort=words),
        "color": nominal("model", scale=colour, legend=None),
    }
    shape = nominal("metric", scale={"domain": words, "range": ["circle", "diamond"]})
    layers: list[Spec] = [
        {"mark": "rule", "encoding": {**at, "x": {**x, "field": "lo"}, "x2": {"field": "hi"}}},
        {"mark": _DOT, "encoding": {**at, "x": x, "shape": shape}},
    ]
    height = {"step": 44, "for": "position"}
    return panel(title, detail, layers, data={"values": rows}, height=height)


def _ends(model: Mapping[str, Any], metric: str) -> Spec:
    interval = interval_of(model, metric)
    return {} if interval is None else {"lo": interval[0], "hi": interval[1]}


Strengths = Mapping[str, Mapping[float, Mapping[str, Any]]]
"""By method, the summary of a set at each strength, rising."""


def strengths_panel(
    title: str,
    detail: str,
    methods: Strengths,
    metrics: Sequence[str],
    looks: Looks,
    levels: Models,
) -> Spec:
    """Two metrics over the strength, solid and dashed, with their intervals.

    The axis is logarithmic; where a method was run at strength 0 the axis is linear below the
    smallest other one. ``levels`` are models without a strength, drawn as level lines.
    """
    called, words = unique_labels(looks), [metric_title(metric) for metric in metrics]
    rows = [
        {"run": called[name], "metric": word, "x": x, "value": value, **_ends(of, metric)}
        for name, points in methods.items()
        for x, of in points.items()
        for metric, word in zip(metrics, words, strict=True)
        if (value := value_of(of, metric)) is not None
    ]
    runs = run_channels({called[name]: look for name, look in looks.items()})
    dashes = {"domain": words, "range": [_SOLID, [5, 3]]}
    lined = {"symbolStrokeWidth": 1.6, "symbolSize": 400}
    dash = nominal("metric", scale=dashes, legend=lined)
    at = {"x": _strength_axis(methods), "y": values(None, percent=True), "color": runs["color"]}
    layers: list[Spec] = [
        {"mark": "rule", "encoding": {**at, "y": quantity("lo", None), "y2": {"field": "hi"}}},
        {"mark": {"type": "line", "strokeWidth": LINE}, "encoding": {**at, "strokeDash": dash}},
        {"mark": _DOT, "encoding": {**at, "shape": runs["shape"]}},
    ]
    level = [
        {"run": called[name], "metric": word, "value": value_of(of, metric)}
        for name, of in levels.items()
        for metric, word in zip(metrics, words, strict=True)
    ]
    encoding = {"y": at["y"], "color": at["color"], "strokeDash": dash}
    layers.append({"data": {"values": level}, "mark": "rule", "encoding": encoding})
    return panel(title, detail, layers, data={"values": rows})


def _strength_axis(methods: Strengths) -> Spec:
    strengths = sorted({strength for points in methods.values() for strength in points})
    least = min((strength for strength in strengths if strength > 0), default=1.0)
    scale = {"type": "log"} if strengths[0] > 0 else {"type": "symlog", "constant": least}
    ticks = {"values": strengths} if len(strengths) <= 8 else {}
    return quantity("x", STRENGTH_AXIS, scale=scale, axis={"grid": False, "format": "~g", **ticks})
