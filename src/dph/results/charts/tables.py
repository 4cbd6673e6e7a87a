"""Evaluations as tables, in per cent: on a terminal with rich, in a README as markdown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from dph.errors import DataError
from dph.results.charts.text_table import (
    count,
    duration,
    markdown_rows,
    percent,
    points,
    set_header,
    set_numbers,
    visible,
)
from dph.results.vocabulary import chosen_ks, method_label, models_of, set_label
from dph.runs.evaluate.comparison import ComparisonRow
from dph.runs.stage_costs import RunCost


def cost_document(cost: RunCost) -> dict[str, Any]:
    """``answers``, ``tokens`` and ``seconds`` of all stages, and the stages ``not_timed``."""
    return {
        "answers": cost.answers,
        "tokens": cost.tokens,
        "seconds": cost.seconds,
        "not_timed": cost.untimed,
    }


def cost_words(cost: Mapping[str, Any]) -> str:
    """A sentence's part of a ``cost_document``; empty where nothing is known.

    >>> cost_words({"answers": 1504, "tokens": None, "seconds": 70, "not_timed": ["pre-sampling"]})
    '1,504 answers, 1 min 10 s (without the time of pre-sampling)'
    """
    untimed: Sequence[str] = cost["not_timed"]
    seconds = cost["seconds"]
    parts = [f"{cost[what]:,} {what}" for what in ("answers", "tokens") if cost[what] is not None]
    if seconds is not None:
        short = f" (without the time of {', '.join(untimed)})" if untimed else ""
        parts.append(f"{duration(seconds)}{short}")
    return ", ".join(parts)


INTERVAL_NOTE = "in per cent, with 95% intervals; styles: effective number"


def evaluation_table(document: Mapping[str, Any]) -> Table:
    """One model: a column for each set of its evaluation.json, a row for each number."""
    sets = document["sets"]
    caption = f"{document['model']}, {document['samples']} samples per problem"
    table = _table(caption, [""], map(set_label, sets))
    table.add_row("problems", *(str(summary["problems"]) for summary in sets.values()))
    for key in ("greedy", "mean"):
        table.add_row(key, *(percent(s[key], s["ci95"].get(key)) for s in sets.values()))
    for k in sorted({k for summary in sets.values() for k in summary["pass_at_k"]}, key=int):
        key = f"pass_at_{k}"
        cells = (percent(s["pass_at_k"].get(k), s["ci95"].get(key)) for s in sets.values())
        table.add_row(f"pass@{k}", *cells)
    for key in ("keep", "explore"):
        pairs = ((percent(s[key]), s[f"{key}_null"]) for s in sets.values())
        cells = (text if null is None else f"{text} ({percent(null)})" for text, null in pairs)
        table.add_row(f"{key} (base itself)", *cells)
    table.add_row("cut off", *(percent(s.get("cut_off")) for s in sets.values()))
    table.add_row("effective styles", *(count(s["effective_styles"]) for s in sets.values()))
    return table


def comparison_table(
    summary: Mapping[str, Any], *, ks: Sequence[int] | None = None, intervals: bool = True
) -> Table:
    """The base model and every method: a block of rows for each set.

    ``summary`` is ``{"base": {"sets"}, "methods": {name: {"sets"}}}`` of one seed.
    ``ks`` None shows pass@8 and pass@16.
    """
    sets = summary["base"]["sets"]
    shown = chosen_ks(next(iter(sets.values()))["pass_at_k"], ks)
    header = set_header(shown, cut_off=_knows_cut_off(models_of(summary)))
    table = _table(INTERVAL_NOTE if intervals else "in per cent", ["set", "method"], header)
    for name in sets:
        for i, row in enumerate(_rows(summary, name, shown, intervals=intervals)):
            table.add_row("" if i else visible(set_label(name)), *row)
        table.add_section()
    return table


def differences_table(rows: Sequence[ComparisonRow]) -> Table:
    """Paired differences to the baseline, in percentage points."""
    caption = "difference from the baseline on the same problems, 95% intervals"
    table = _table(caption, ["set", "metric", "run"], ["per cent", "difference"])
    last = None
    for row in rows:
        key, apart = (row.set_name, row.metric), row.difference
        if last is not None and key != last:
            table.add_section()
        table.add_row(
            visible(set_label(row.set_name)) if key != last else "",
            row.metric.replace("pass_at_", "pass@") if key != last else "",
            visible(row.run),
            percent(row.value, [row.lo, row.hi]),
            "baseline" if apart is None else points(apart.mean, [apart.lo, apart.hi]),
        )
        last = key
    return table


def markdown_table(
    summary: Mapping[str, Any],
    *,
    set_name: str,
    ks: Sequence[int] | None = None,
    intervals: bool = True,
) -> str:
    """The base model, where it was measured, and every method on one set, as a markdown table.

    Raises:
        DataError: a model was not evaluated on the set.
    """
    models = models_of(summary)
    first, sets = next(iter(models.items()))
    shown = chosen_ks(_set_of(sets, set_name, first)["pass_at_k"], ks)
    header = [set_label(set_name), *set_header(shown, cut_off=_knows_cut_off(models))]
    return markdown_rows(header, _rows(summary, set_name, shown, intervals=intervals)) + "\n"


def _rows(
    summary: Mapping[str, Any], set_name: str, ks: Sequence[str], *, intervals: bool
) -> list[list[str]]:
    """Label and scores of every model on a set."""
    models = models_of(summary)
    cut_off = _knows_cut_off(models)
    rows = []
    for name, sets in models.items():
        of_set = _set_of(sets, set_name, name)
        numbers = set_numbers(of_set, ks, intervals=intervals, cut_off=cut_off)
        rows.append([method_label(name), *map(str, numbers)])
    return rows


def _knows_cut_off(models: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> bool:
    """True if a model's sets record how many answers were cut off; older files do not."""
    return any(of.get("cut_off") is not None for sets in models.values() for of in sets.values())


def _set_of(sets: Mapping[str, Mapping[str, Any]], set_name: str, model: str) -> Mapping[str, Any]:
    if set_name not in sets:
        raise DataError(
            f"{model!r} was not evaluated on set {set_name!r}, only on {', '.join(sets)}"
        )
    return sets[set_name]


def _table(caption: str, texts: Iterable[str], numbers: Iterable[str]) -> Table:
    """A table with the titles of its columns of texts, and then of numbers."""
    table = Table(box=SIMPLE_HEAD, caption=caption, caption_justify="left", pad_edge=False)
    for title in texts:
        table.add_column(title, no_wrap=True)
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    return table
