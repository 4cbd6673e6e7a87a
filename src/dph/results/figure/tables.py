"""The paper's tables from run directories, each number with its interval.

**Source**: arXiv:2509.07430, Tables 1 to 4 (greedy and Pass@k, on the trained task and on others)
and 8 (the weight of the rehearsal term).
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dph.errors import DataError, SettingsError
from dph.results.charts.text_table import (
    Cell,
    TableNumber,
    TextTable,
    percent_number,
    set_header,
    set_numbers,
)
from dph.results.figure.figures import strengths_on
from dph.results.figure.models import FigureRequest, Models, read_models
from dph.results.vocabulary import (
    chosen_ks,
    interval_of,
    method_label,
    require_shown_k,
    set_label,
    value_of,
)
from dph.runs.evaluate.metrics import RETENTION_K

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
    shown = {of: _shown_ks(models.on(of), ks) for of in sets}
    columns = [f"{set_label(of)}: {head}" for of in sets for head in set_header(shown[of])]
    rows: list[tuple[Cell, ...]] = [
        (
            method_label(model.name),
            *(cell for of in sets for cell in _cells(model.sets.get(of), shown[of])),
            str(model.runs),
        )
        for model in models.models
    ]
    return TextTable(
        name=name,
        title=title,
        columns=("method", *columns, "runs"),
        rows=tuple(rows),
        note=f"{_UNITS}; intervals: {models.interval_note()}.",
    )


def _retention(asked: FigureRequest, ks: Sequence[int] | None) -> TextTable:
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
        raise DataError(
            f"nothing to show: no run has two draws of {k} samples and a base model to compare with"
        )
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


def _eta(asked: FigureRequest, ks: Sequence[int] | None) -> TextTable:
    models = read_models(asked)
    sets = [name for name in models.sets if asked.sets or name not in models.other_tasks]
    lines = {of: strengths_on(models, of) for of in sets}
    points = sorted({(m, s) for of in lines.values() for m, line in of.items() for s in line})
    if not points:
        raise DataError("nothing to show: no method was run at two strengths or more")
    shown = {of: _shown_ks(models.on(of), ks) for of in sets}
    columns = [f"{set_label(of)}: {head}" for of in sets for head in set_header(shown[of])]
    rows: list[tuple[Cell, ...]] = [
        (
            method_label(method),
            f"{strength:g}",
            *(
                cell
                for of in sets
                for cell in _cells(lines[of].get(method, {}).get(strength), shown[of])
            ),
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


def _shown_ks(summaries: Mapping[str, Mapping[str, Any]], ks: Sequence[int] | None) -> list[str]:
    """The k of Pass@k that a set's columns have: of those that any of its models has."""
    known = {k: None for summary in summaries.values() for k in summary["pass_at_k"]}
    for k in ks or ():
        require_shown_k(k, known)
    return chosen_ks(known, ks)


def _cells(summary: Mapping[str, Any] | None, ks: Sequence[str]) -> list[TableNumber]:
    if summary is None:
        return [TableNumber(value=None)] * len(set_header(ks))
    return set_numbers(summary, ks, intervals=True)


def _cell(summary: Mapping[str, Any] | None, metric: str) -> TableNumber:
    if summary is None:
        return TableNumber(value=None)
    return percent_number(value_of(summary, metric), interval_of(summary, metric))


TABLE_KINDS: Mapping[str, Callable[[FigureRequest, Sequence[int] | None], TextTable]] = (
    MappingProxyType(
        {
            "scores": _scores,  # Tables 1, 3 and 4
            "elsewhere": _elsewhere,  # Table 2
            "retention": _retention,  # the rates of Figure 4
            "eta": _eta,  # Table 8
        }
    )
)
