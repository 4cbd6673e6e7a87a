"""The paper's figures from run directories: one panel a set, each number with its interval.

**Source**: arXiv:2509.07430, Figures 2 to 5.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dph.errors import DataError, SettingsError
from dph.results.charts.figures import save_figure
from dph.results.charts.palette import require_picture
from dph.results.charts.panels import (
    Draw,
    draw_dots,
    draw_pass_at_k,
    draw_progress,
    draw_shares,
    draw_strengths,
    panel_grid,
    style_fills,
    title,
    wrapped,
)
from dph.results.figure.models import MeasuredRuns, Model, Models, read_models, read_progress
from dph.results.vocabulary import (
    OVER_PROBLEMS,
    OVER_SEEDS,
    chosen_ks,
    metric_title,
    require_shown_k,
    set_title,
    value_of,
)
from dph.runs.evaluate.metrics import RETENTION_K, require_k_fits


def strengths_on(models: Models, set_name: str) -> dict[str, dict[float, Mapping[str, Any]]]:
    """By method and rising strength, what models scored on a set; two strengths at least."""
    found: dict[str, dict[float, Model]] = {}
    for model in models.models:
        if model.method is None or model.strength is None or set_name not in model.sets:
            continue
        of_method = found.setdefault(model.method, {})
        if model.strength in of_method:
            raise DataError(
                f"{of_method[model.strength].name} and {model.name} are both {model.method} at "
                f"{model.strength:g} and differ in more than their seed; name one of them"
            )
        of_method[model.strength] = model
    return {
        method: {strength: points[strength].sets[set_name] for strength in sorted(points)}
        for method, points in found.items()
        if len(points) > 1
    }


def many_of(summaries: Mapping[str, Mapping[str, Any]], k: int | None) -> str:
    """The metric of many tries: Pass@k of ``k``, or of the largest usual one that all have."""
    common = [k for k in _first(summaries) if all(k in s["pass_at_k"] for s in summaries.values())]
    if k is not None and str(k) not in common:
        raise DataError(f"there is no Pass@{k} of all runs, only of k = {', '.join(common)}")
    return f"pass_at_{k or chosen_ks(dict.fromkeys(common))[-1]}"


def _first(summaries: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    return list(next(iter(summaries.values()))["pass_at_k"])


_BAR_HEIGHT, _DOT_HEIGHT, _MARGIN = 0.5, 0.26, 1.5
"""Inches of a model's bar, of its row of dots, and of what is around them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRequest:
    """Request for a figure; ``sets`` empty: all, ``k`` None: the usual one."""

    places: Sequence[Path]
    sets: Sequence[str] = ()
    k: int | None = None
    seed: int = 0
    apart: bool = False

    def models(self, retention_k: int = RETENTION_K) -> Models:
        """The evaluated runs, and what they began with."""
        return read_models(
            self.places, sets=self.sets, retention_k=retention_k, seed=self.seed, apart=self.apart
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFigure:
    """A figure that has yet to be drawn; ``notes`` say what it could not show."""

    draw: Callable[[], Figure]
    shown: tuple[str, ...]
    notes: tuple[str, ...]


def save_paper_figure(kind: str, asked: FigureRequest, path: Path) -> PendingFigure:
    """Draw a figure of ``KINDS`` into ``path`` (pdf, png or svg); the same runs, the same bytes.

    Raises:
        DataError: no run holds what the figure shows, or a file is damaged.
        SettingsError: the figure or the suffix is unknown, or the figure has no k.
    """
    require_picture(path)
    if kind not in KINDS:
        raise SettingsError(f"unknown figure {kind!r}; choose from {', '.join(KINDS)}")
    if asked.k is not None and kind == _STYLES_KIND:
        raise SettingsError(f"-k has no meaning for {kind}")
    drawing = KINDS[kind](asked)
    save_figure(path, drawing.draw)
    return drawing


def _styles(asked: FigureRequest) -> PendingFigure:
    models = asked.models()
    sets = {name: models.on(name) for name in models.sets}
    known = {
        name: with_styles
        for name, of_set in sets.items()
        if (with_styles := {m: s for m, s in of_set.items() if s["styles"]})
    }
    _require(known, "answers with styles (data.styles)")

    def panel(ax: Axes, name: str) -> None:
        draw_shares(ax, known[name], colours)
        title(ax, set_title(name), f"right: effective number of styles, {models.interval_note()}")

    colours = style_fills(list(known.values()))
    height = _MARGIN + _BAR_HEIGHT * max(map(len, known.values()))
    return _panels(models, known, panel, height=height, most=2)


def _pass_at_k(asked: FigureRequest) -> PendingFigure:
    models = asked.models()
    samples = max(int(k) for name in models.sets for k in _all_ks(models, name))
    if asked.k is not None:
        require_k_fits(asked.k, samples)
        require_shown_k(asked.k, (k for name in models.sets for k in _all_ks(models, name)))
    chosen, last = models.looks(), asked.k or samples

    def panel(ax: Axes, name: str) -> None:
        upto = {
            model: {
                **summary,
                "pass_at_k": {k: v for k, v in summary["pass_at_k"].items() if int(k) <= last},
            }
            for model, summary in models.on(name).items()
        }
        draw_pass_at_k(ax, upto, chosen)
        title(ax, set_title(name), f"bands: {models.interval_note()}")

    return _panels(models, models.sets, panel)


def _retention(asked: FigureRequest) -> PendingFigure:
    k = asked.k or RETENTION_K
    models = asked.models(retention_k=k)
    known = {
        name: models.on(name)
        for name in models.sets
        if any(value_of(s, "keep") is not None for s in models.on(name).values())
    }
    _require(known, f"two draws of {k} samples and a base model to compare with")
    chosen = models.looks()

    def panel(ax: Axes, name: str) -> None:
        draw_dots(ax, known[name], ("keep", "explore"), chosen)
        title(
            ax,
            set_title(name),
            f"kept (filled) and gained, of {k}; {models.interval_note()}",
        )

    height = _MARGIN + _DOT_HEIGHT * max(map(len, known.values()))
    return _panels(models, known, panel, height=height)


def _eta(asked: FigureRequest) -> PendingFigure:
    models = asked.models()
    lines = {name: strengths_on(models, name) for name in models.sets}
    known = {name: of_set for name, of_set in lines.items() if of_set}
    _require(known, "a method at two strengths or more (docs/methods.md says what they are)")
    chosen = models.looks()
    by_method = {m: chosen[models.first_of(m)] for of_set in known.values() for m in of_set}
    by_method |= {m.name: chosen[m.name] for m in models.models if m.is_base}

    def panel(ax: Axes, name: str) -> None:
        many = many_of(models.on(name), asked.k)
        base = [models.on(name)[m.name] for m in models.models if m.is_base]
        level = base[0] if len(base) == 1 else None
        draw_strengths(ax, known[name], ("greedy", many), by_method, base=level)
        title(
            ax,
            set_title(name),
            f"greedy (solid), {metric_title(many)} (dashed); {models.interval_note()}",
        )

    return _panels(models, known, panel)


def _progress(asked: FigureRequest) -> PendingFigure:
    found = read_progress(asked.places, k=asked.k, seed=asked.seed, apart=asked.apart)
    sets = _chosen_sets(found, asked.sets)
    note = OVER_SEEDS if found.several else OVER_PROBLEMS

    def panel(ax: Axes, name: str) -> None:
        draw_progress(ax, found.on(name), f"pass_at_{found.k}", found.looks)
        title(ax, set_title(name), f"while training; bands: {note}")

    rows = wrapped([lambda ax, name=name: panel(ax, name) for name in sets])  # type: ignore[misc]
    return PendingFigure(draw=lambda: panel_grid(rows), shown=tuple(found.runs), notes=found.notes)


def _panels(
    models: Models,
    sets: Sequence[str] | Mapping[str, object],
    panel: Callable[[Axes, str], None],
    *,
    height: float = 4.2,
    most: int = 3,
) -> PendingFigure:
    draws: list[Draw] = [lambda ax, name=name: panel(ax, name) for name in sets]  # type: ignore[misc]
    return PendingFigure(
        draw=lambda: panel_grid(wrapped(draws, most=most), height=height),
        shown=tuple(model.name for model in models.models),
        notes=models.notes,
    )


def _chosen_sets(found: MeasuredRuns, wanted: Sequence[str]) -> list[str]:
    for name in wanted:
        if name not in found.sets:
            raise DataError(f"no run was measured on {name!r}, only on {', '.join(found.sets)}")
    return list(wanted) or found.sets


def _all_ks(models: Models, name: str) -> list[str]:
    return [k for summary in models.on(name).values() for k in summary["pass_at_k"]]


def _require(known: Mapping[str, object], what: str) -> None:
    if not known:
        raise DataError(f"nothing to draw: no run has {what}")


_STYLES_KIND = "styles"
KINDS: Mapping[str, Callable[[FigureRequest], PendingFigure]] = MappingProxyType(
    {
        _STYLES_KIND: _styles,  # Figure 2
        "pass-at-k": _pass_at_k,  # Figure 3
        "retention": _retention,  # Figure 4
        "eta": _eta,  # the ablation of eta, Table 8
        "progress": _progress,  # Figure 5
    }
)
