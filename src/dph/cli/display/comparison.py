"""Comparisons of evaluated runs: as text and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dph.cli.display.output import table_of, table_text
from dph.results.charts.tables import differences_table
from dph.results.charts.text_table import count, percent, points
from dph.results.vocabulary import set_label
from dph.runs.evaluate.comparison import BASE, MODEL, ComparisonRow, RewardsSummary
from dph.runs.evaluate.evaluated_runs import RunOnSet
from dph.runs.evaluate.intervals import PEER

if TYPE_CHECKING:
    from rich.table import Table

_BANDS = f"all k together: the difference's bounds at all k at once; {PEER}: those of that paper"


def passk_json(summary: RewardsSummary, source: Path, against: Path | None) -> dict[str, Any]:
    """For machines: fractions in [0, 1]; keep and explore are null where nothing can be said."""
    kept = summary.retention
    return {
        "schema": 1,
        "input": str(source),
        "against": None if against is None else str(against),
        "problems": summary.problems,
        "samples": {"fewest": summary.fewest_samples, "most": summary.most_samples},
        "left_out": list(summary.left_out),
        "metrics": {mine.metric: _metric(mine, other) for mine, other in _pairs(summary)},
        **_first_loss_json(summary),
        "keep": kept and kept.keep,
        "explore": kept and kept.explore,
        "keep_null": kept and kept.keep_null,
        "explore_null": kept and kept.explore_null,
    }


def passk_table(
    summary: RewardsSummary, source: Path, against: Path | None, retention_k: int
) -> "Table":
    """For people: in per cent."""
    others = () if against is None else (against.name, "difference", "all k together", PEER)
    rows = [
        [mine.metric.replace("pass_at_", "pass@"), *_cells(mine, other, summary)]
        for mine, other in _pairs(summary)
    ]
    if (kept := summary.retention) is not None:
        rows.append(["keep", percent(kept.keep), percent(kept.keep_null)])
        rows.append(["explore", percent(kept.explore), percent(kept.explore_null)])
    table = table_of(_caption(summary, retention_k), ["", source.name, *others], rows)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _caption(summary: RewardsSummary, retention_k: int) -> str:
    fewest, most = summary.fewest_samples, summary.most_samples
    lines = [] if summary.band is None else [summary.band.sentence(), _BANDS]
    lines += [
        f"{summary.problems} problems, {fewest if fewest == most else f'{fewest} to {most}'} "
        "samples each; in per cent, with 95% intervals over problems"
    ]
    if any(row.exact for row in summary.rows):
        lines.append(
            "an interval is exact where all problems have one value, else by the bootstrap"
        )
    if summary.left_out:
        lines.append(f"{len(summary.left_out)} problem(s) left out: their gold cannot be graded")
    if (kept := summary.retention) and kept.keep_null is None and kept.explore_null is None:
        lines.append(
            f"keep and explore need {2 * retention_k} samples of every problem "
            "(fewer: --retention-k)"
            if fewest < 2 * retention_k
            else "keep and explore need as many samples of each problem as of every other, in both "
            "files; CRASHED samples do not count"
        )
    return "\n".join(lines)


def _pairs(summary: RewardsSummary) -> list[tuple[ComparisonRow, ComparisonRow | None]]:
    """The rows of both files, metric by metric."""
    others = {row.metric: row for row in summary.rows if row.run == BASE}
    return [(row, others.get(row.metric)) for row in summary.rows if row.run == MODEL]


def _cells(mine: ComparisonRow, other: ComparisonRow | None, summary: RewardsSummary) -> list[str]:
    cells = [percent(row.value, [row.lo, row.hi]) for row in (mine, other) if row is not None]
    if (apart := mine.difference) is not None:
        cells.append(points(apart.mean, [apart.lo, apart.hi]))
    for band in (summary.band, summary.peer):
        if band is not None and mine.k is not None:
            cells.append(points(0.0, band.bounds[mine.k]).partition(" ")[2])
    return cells


def _metric(mine: ComparisonRow, other: ComparisonRow | None) -> dict[str, Any]:
    found, *others = (
        dict[str, Any](
            value=row.value,
            ci95=[row.lo, row.hi],
            interval="exact" if row.exact else "bootstrap",
        )
        for row in (mine, other)
        if row is not None
    )
    if others and (apart := mine.difference) is not None:
        difference = {"mean": apart.mean, "ci95": [apart.lo, apart.hi]}
        found |= {"against": others[0], "difference": difference}
    return found


def _first_loss_json(summary: RewardsSummary) -> dict[str, Any]:
    """The band, and where it says that the model loses; null without another file."""
    band, peer = summary.band, summary.peer
    if band is None or peer is None:
        return {"band": None, "first_loss": None}
    alone = {row.k: row.difference for row in summary.rows if row.k and row.difference}
    names = ("k", "difference", "low", "high", "pointwise_low", "pointwise_high")
    rows = [(k, d.mean, *band.bounds[k], d.lo, d.hi, *peer.bounds[k]) for k, d in alone.items()]
    return {
        "band": [dict(zip((*names, "peer_low", "peer_high"), row, strict=True)) for row in rows],
        "first_loss": band.document() | {"peer": {"source": PEER} | peer.document()},
    }


def comparison_json(
    labels: Mapping[str, str], rows: Sequence[ComparisonRow], on_sets: Sequence[RunOnSet]
) -> dict[str, Any]:
    """For machines: one object a row; fractions in [0, 1]. Runs are named by their paths."""
    metrics = [
        {
            "set": row.set_name,
            "metric": row.metric,
            "run": row.run,
            "value": row.value,
            "ci95": [row.lo, row.hi],
            "difference": (d := row.difference) and {"mean": d.mean, "ci95": [d.lo, d.hi]},
        }
        for row in rows
    ]
    sets, problems = [], []
    for on_set in on_sets:
        place = {"set": on_set.set_name, "run": on_set.run}
        kept, band = on_set.retention, on_set.band
        styles = {"styles": dict(on_set.shares), "effective_styles": on_set.effective_styles}
        sets.append({**place, **styles, **asdict(kept), "first_loss": band and band.document()})
        problems += [{**place, **asdict(one), "change": one.change} for one in on_set.changed]
    return {
        "schema": 1,
        "baseline": next(iter(labels)),
        "labels": dict(labels),
        "rows": metrics,
        "sets": sets,
        "problems": problems,
    }


def comparison_text(
    labels: Mapping[str, str], rows: Sequence[ComparisonRow], on_sets: Sequence[RunOnSet]
) -> str:
    """For people: metrics with differences, then styles, keep and explore, then problems."""
    named = [replace(row, run=labels[row.run]) for row in rows]
    tables = [differences_table(named), _sets_table(labels, on_sets)]
    changed = [
        [
            set_label(on_set.set_name),
            labels[on_set.run],
            one.problem_id,
            f"{one.correct}/{one.samples}",
            f"{one.baseline_correct}/{one.baseline_samples}",
        ]
        for on_set in on_sets
        for one in on_set.changed
    ]
    if changed:
        titles = ["set", "run", "problem", "correct", "before"]
        tables.append(table_of("the problems that changed most", titles, changed))
    return "\n\n".join(map(table_text, tables))


def _sets_table(labels: Mapping[str, str], on_sets: Sequence[RunOnSet]) -> "Table":
    rows, last = [], ""
    for on_set in on_sets:
        kept, band = on_set.retention, on_set.band
        shares = ((kept.keep, kept.keep_null), (kept.explore, kept.explore_null))
        ks = () if band is None else (band.above, band.below)
        rows.append(
            [
                set_label(on_set.set_name) if on_set.set_name != last else "",
                labels[on_set.run],
                count(on_set.effective_styles),
                *(percent(x) if n is None else f"{percent(x)} ({percent(n)})" for x, n in shares),
                *(", ".join(map(str, found)) or "none" for found in ks),
            ]
        )
        last = on_set.set_name
    return table_of(
        "keep, explore: of the baseline's problems; in brackets, its score against itself\n"
        "above, below: those of k = 1, 2, 4 ... at which Pass@k is above or below the baseline's "
        "(95%, all k together)",
        ["set", "run", "effective styles", "keep", "explore", "above", "below"],
        rows,
    )
