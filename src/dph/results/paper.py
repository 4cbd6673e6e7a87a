"""The paper's figures and tables from run directories, each number with its interval.

**Source**: arXiv:2509.07430, Figures 2 to 5, and Tables 1 to 4 (greedy and Pass@k, on the trained
task and on others) and 8 (the weight of the rehearsal term).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dph.errors import DataError, SettingsError
from dph.results.charts.panels import (
    Spec,
    dots_panel,
    pass_at_k_panel,
    picture,
    progress_panel,
    shares_panel,
    strengths_panel,
    style_fills,
)
from dph.results.charts.picture import Picture
from dph.results.charts.text_table import (
    Cell,
    TableNumber,
    TextTable,
    percent_number,
    set_header,
    set_numbers,
)
from dph.results.paper_models import FigureRequest, Model, Models, read_models, read_progress
from dph.results.vocabulary import (
    OVER_PROBLEMS,
    OVER_SEEDS,
    chosen_ks,
    interval_of,
    method_label,
    require_shown_k,
    set_label,
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
    first = next(iter(summaries.values()))["pass_at_k"]
    common = [k for k in first if all(k in of["pass_at_k"] for of in summaries.values())]
    if k is not None and str(k) not in common:
        raise DataError(f"there is no Pass@{k} of all runs, only of k = {', '.join(common)}")
    return f"pass_at_{k or chosen_ks(dict.fromkeys(common))[-1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
    """A figure of the runs ``shown``; ``notes`` say what it could not show."""

    picture: Picture
    shown: tuple[str, ...]
    notes: tuple[str, ...]


def paper_figure(kind: str, asked: FigureRequest) -> PaperFigure:
    """A figure of ``KINDS``.

    Raises:
        DataError: no run holds what the figure shows, or a file is damaged.
        SettingsError: the figure is unknown, or it has no k.
    """
    if kind not in KINDS:
        raise SettingsError(f"unknown figure {kind!r}; choose from {', '.join(KINDS)}")
    if asked.k is not None and kind == _STYLES_KIND:
        raise SettingsError(f"-k has no meaning for {kind}")
    return KINDS[kind](asked)


def _styles(asked: FigureRequest) -> PaperFigure:
    models = read_models(asked)
    known = {}
    for name in models.sets:
        if of_set := {model: of for model, of in models.on(name).items() if of["styles"]}:
            known[name] = of_set
    _require(known, "answers with styles (data.styles)")
    colours = style_fills(list(known.values()))
    detail = f"right: effective number of styles, {models.interval_note()}"
    panels = [
        shares_panel(set_title(name), detail, of_set, colours) for name, of_set in known.items()
    ]
    return _figure(models, panels, most=2)


def _pass_at_k(asked: FigureRequest) -> PaperFigure:
    models = read_models(asked)
    known = [k for name in models.sets for of in models.on(name).values() for k in of["pass_at_k"]]
    samples = max(map(int, known))
    if asked.k is not None:
        require_k_fits(asked.k, samples)
        require_shown_k(asked.k, known)
    chosen, last = models.looks(), asked.k or samples
    detail = f"bands: {models.interval_note()}"
    panels = []
    for name in models.sets:
        upto = {
            model: {**of, "pass_at_k": {k: v for k, v in of["pass_at_k"].items() if int(k) <= last}}
            for model, of in models.on(name).items()
        }
        panels.append(pass_at_k_panel(set_title(name), detail, upto, chosen))
    return _figure(models, panels)


def _retention_figure(asked: FigureRequest) -> PaperFigure:
    k = asked.k or RETENTION_K
    models = read_models(asked, retention_k=k)
    sets = {name: models.on(name) for name in models.sets}
    known = {
        name: of_set
        for name, of_set in sets.items()
        if any(value_of(summary, "keep") is not None for summary in of_set.values())
    }
    _require(known, f"two draws of {k} samples and a base model to compare with")
    chosen, words = models.looks(), {"keep": "kept", "explore": "gained"}
    detail = f"kept and gained, of {k} samples; {models.interval_note()}"
    panels = [
        dots_panel(set_title(name), detail, of_set, words, chosen) for name, of_set in known.items()
    ]
    return _figure(models, panels)


def _eta_figure(asked: FigureRequest) -> PaperFigure:
    models = read_models(asked)
    lines = {name: strengths_on(models, name) for name in models.sets}
    known = {name: of_set for name, of_set in lines.items() if of_set}
    _require(known, "a method at two strengths or more (docs/methods.md says what they are)")
    chosen = models.looks()
    bases = [model.name for model in models.models if model.is_base]
    looks = {base: chosen[base] for base in bases}
    looks |= {m: chosen[models.first_of(m)] for of_set in known.values() for m in of_set}
    panels = []
    for name, of_set in known.items():
        summaries = models.on(name)
        levels = {base: summaries[base] for base in bases if base in summaries}
        metrics = ("greedy", many_of(summaries, asked.k))
        detail = f"intervals: {models.interval_note()}"
        panels.append(strengths_panel(set_title(name), detail, of_set, metrics, looks, levels))
    return _figure(models, panels)


def _progress(asked: FigureRequest) -> PaperFigure:
    found = read_progress(asked)
    for name in asked.sets:
        if name not in found.sets:
            raise DataError(f"no run was measured on {name!r}, only on {', '.join(found.sets)}")
    detail = f"while training; bands: {OVER_SEEDS if found.several else OVER_PROBLEMS}"
    panels = [
        progress_panel(set_title(name), detail, found.on(name), f"pass_at_{found.k}", found.looks)
        for name in asked.sets or found.sets
    ]
    return PaperFigure(picture=Picture(picture(panels)), shown=tuple(found.runs), notes=found.notes)


def _figure(models: Models, panels: Sequence[Spec], *, most: int = 3) -> PaperFigure:
    shown = tuple(model.name for model in models.models)
    return PaperFigure(picture=Picture(picture(panels, most=most)), shown=shown, notes=models.notes)


def _require(known: Mapping[str, object], what: str) -> None:
    if not known:
        raise DataError(f"nothing to draw: no run has {what}")


_STYLES_KIND = "styles"
KINDS: Mapping[str, Callable[[FigureRequest], PaperFigure]] = MappingProxyType(
    {
        _STYLES_KIND: _styles,  # Figure 2
        "pass-at-k": _pass_at_k,  # Figure 3
        "retention": _retention_figure,  # Figure 4
        "eta": _eta_figure,  # the ablation of eta, Table 8
        "progress": _progress,  # Figure 5
    }
)


# Tables.

Summary = Mapping[str, Any]
_UNITS = "In per cent, styles as their effective number"


def paper_table(kind: str, asked: FigureRequest, ks: Sequence[int] | None = None) -> TextTable:
    """A table of ``TABLE_KINDS``; ``ks`` None shows Pass@8 and Pass@16, or what is nearest.

    Raises:
        DataError: no run holds what the table shows, or a file is damaged.
        SettingsError: the table is unknown, or it has no k.
    """
    if kind not in TABLE_KINDS:
        raise SettingsError(f"unknown table {kind!r}; choose from {', '.join(TABLE_KINDS)}")
    return TABLE_KINDS[kind](asked, ks)


def _scores(asked: FigureRequest, ks: Sequence[int] | None) -> TextTable:
    models = read_models(asked)
    sets = models.sets
    if not asked.sets:
        sets = [name for name in sets if name not in models.other_tasks] or sets
    return _score_table(models, sets, ks, name="scores", title="Scores")


def _elsewhere(asked: FigureRequest, ks: Sequence[int] | None) -> TextTable:
    models = read_models(asked)
    sets = [name for name in models.sets if name in models.other_tasks]
    if not sets:
        raise DataError(
            "no set has its own grader, so all are the trained task; "
            "name sets with `dph table scores --set-name`"
        )
    return _score_table(models, sets, ks, name="elsewhere", title="Tasks that were not trained")


def _score_table(
    models: Models, sets: Sequence[str], ks: Sequence[int] | None, *, name: str, title: str
) -> TextTable:
    columns, cells = _score_cells(models, sets, ks)
    rows: list[tuple[Cell, ...]] = [
        (method_label(model.name), *cells([model.sets.get(of) for of in sets]), str(model.runs))
        for model in models.models
    ]
    return TextTable(
        name=name,
        title=title,
        columns=("method", *columns, "runs"),
        rows=tuple(rows),
        note=f"{_UNITS}; intervals: {models.interval_note()}.",
    )


def _score_cells(
    models: Models, sets: Sequence[str], ks: Sequence[int] | None
) -> tuple[list[str], Callable[[Sequence[Summary | None]], list[TableNumber]]]:
    """Titles of the scores on sets, and what makes their cells of a summary for each set."""
    shown = []
    for name in sets:
        known = {k: None for summary in models.on(name).values() for k in summary["pass_at_k"]}
        for k in ks or ():
            require_shown_k(k, known)
        shown.append(chosen_ks(known, ks))
    titles = [set_header(one) for one in shown]

    def cells(summaries: Sequence[Summary | None]) -> list[TableNumber]:
        unknown = TableNumber(value=None)
        return [
            cell
            for of, one, heads in zip(summaries, shown, titles, strict=True)
            for cell in (
                [unknown] * len(heads) if of is None else set_numbers(of, one, intervals=True)
            )
        ]

    heads = zip(sets, titles, strict=True)
    return [f"{set_label(of)}: {head}" for of, of_set in heads for head in of_set], cells


def _retention_table(asked: FigureRequest, ks: Sequence[int] | None) -> TextTable:
    if ks is not None and len(ks) != 1:
        raise SettingsError(f"retention takes one k, samples of a draw, got {list(ks)}")
    k = RETENTION_K if ks is None else ks[0]
    models = read_models(asked, retention_k=k)
    pairs = [(of, metric) for of in models.sets for metric in ("keep", "explore")]
    cells = [
        (model.name, [_cell(model.sets.get(of), metric) for of, metric in pairs])
        for model in models.models
    ]
    if all(cell.value is None for _, row in cells for cell in row):
        what = f"two draws of {k} samples and a base model to compare with"
        raise DataError(f"nothing to show: no run has {what}")
    return TextTable(
        name="retention",
        title="Kept and gained",
        columns=("method", *(f"{set_label(of)}: {metric}" for of, metric in pairs)),
        rows=tuple((method_label(name), *row) for name, row in cells),
        note=(
            f"In per cent; intervals: {models.interval_note()}. keep: of the problems that the "
            f"base model solved with one of {k} samples, those that another {k} samples solve; "
            "explore: the same of those that it did not solve. The base model's row compares two "
            "draws of it."
        ),
    )


def _eta_table(asked: FigureRequest, ks: Sequence[int] | None) -> TextTable:
    models = read_models(asked)
    sets = [name for name in models.sets if asked.sets or name not in models.other_tasks]
    lines = {of: strengths_on(models, of) for of in sets}
    points = sorted({(m, s) for of in lines.values() for m, line in of.items() for s in line})
    if not points:
        raise DataError("nothing to show: no method was run at two strengths or more")
    columns, cells = _score_cells(models, sets, ks)
    rows: list[tuple[Cell, ...]] = [
        (
            method_label(method),
            f"{strength:g}",
            *cells([lines[of].get(method, {}).get(strength) for of in sets]),
        )
        for method, strength in points
    ]
    return TextTable(
        name="eta",
        title="Scores over a method's strength",
        columns=("method", "strength", *columns),
        rows=tuple(rows),
        note=f"{_UNITS}; intervals: {models.interval_note()}.",
        left=2,
    )


def _cell(summary: Summary | None, metric: str) -> TableNumber:
    if summary is None:
        return TableNumber(value=None)
    return percent_number(value_of(summary, metric), interval_of(summary, metric))


TABLE_KINDS: Mapping[str, Callable[[FigureRequest, Sequence[int] | None], TextTable]] = (
    MappingProxyType(
        {
            "scores": _scores,  # Tables 1, 3 and 4
            "elsewhere": _elsewhere,  # Table 2
            "retention": _retention_table,  # the rates of Figure 4
            "eta": _eta_table,  # Table 8
        }
    )
)
