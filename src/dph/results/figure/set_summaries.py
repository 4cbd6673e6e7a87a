"""A set's summary with an interval for every number of it: also of styles, kept and gained."""

from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from dph.results.diagnosis.style_counts import set_style_counts
from dph.results.report.compared_sets import curve_ks, table_ks
from dph.runs.evaluate.intervals import bootstrap
from dph.runs.evaluate.retention import second_draw, solved_by
from dph.runs.evaluate.scores import SetScores, set_summary

Drawn = Int[np.ndarray, "block problems"]


def full_summary(
    table: pa.Table,
    set_name: str,
    scores: SetScores,
    base: SetScores | None,
    *,
    retention_k: int,
    seed: int,
) -> dict[str, Any]:
    """The object of evaluation.json, with ``ci95`` of effective styles, keep and explore too.

    ``table`` are the samples that ``scores`` were made from. Intervals are bootstraps over
    problems; the base model's first draw, which says what there was to keep, is held fixed with
    its problem.

    Raises:
        DataError: the base was scored on other problems.
        SettingsError: retention_k is below 1.
    """
    ks = sorted({*curve_ks(scores.samples), *table_ks(scores.samples)})
    summary = set_summary(scores, ks=ks, seed=seed, base=base, retention_k=retention_k)
    if scores.shares:
        summary["ci95"]["effective_styles"] = list(_styles_interval(table, set_name, scores, seed))
    if base is not None:
        summary["ci95"] |= _retention_intervals(scores, base, retention_k, seed)
    return summary


def _styles_interval(
    table: pa.Table, set_name: str, scores: SetScores, seed: int
) -> tuple[float, float]:
    counts = set_style_counts(table, set_name, scores)
    named = counts.answers[:, [style is not None for style in counts.styles]]
    return bootstrap(lambda drawn: _effective(named[drawn].sum(axis=1)), len(named), seed=seed)


def _effective(counts: Int[np.ndarray, "block styles"]) -> Float[np.ndarray, "block"]:
    """exp(entropy) of each row's shares (``evaluate.styles``); NaN where nothing counts."""
    totals = counts.sum(axis=1, keepdims=True)
    shares = counts / np.where(totals > 0, totals, 1)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return np.where(totals[:, 0] > 0, np.exp(-(shares * logs).sum(axis=1)), nan)


def _retention_intervals(
    scores: SetScores, base: SetScores, k: int, seed: int
) -> dict[str, list[float]]:
    again = second_draw(scores.correct, k)
    if again is None or base.samples < k:
        return {}
    solved = solved_by(base.correct, k)
    sides = {"keep": solved, "explore": ~solved}
    return {
        name: list(
            bootstrap(
                lambda drawn, side=side: _share(again, side, drawn),  # type: ignore[misc]
                len(again),
                seed=seed,
            )
        )
        for name, side in sides.items()
        if side.any()
    }


def _share(
    values: Float[np.ndarray, "problems"], side: np.ndarray, drawn: Drawn
) -> Float[np.ndarray, "block"]:
    """The mean of ``values`` over the drawn problems of one side; NaN where none was drawn."""
    count = side[drawn].sum(axis=1)
    total = (values * side)[drawn].sum(axis=1)
    return np.where(count > 0, total / np.where(count > 0, count, 1), nan)
