"""Comparisons of evaluated runs: as text and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dph.cli.display.output import table_text
from dph.results.charts.tables import differences_table
from dph.results.charts.text_table import count, percent, points
from dph.results.vocabulary import set_label
from dph.runs.evaluate.comparison import ChangedProblem, ComparisonRow
from dph.runs.evaluate.evaluated_runs import RunOnSet
from dph.runs.evaluate.rewards_file import Estimate, MetricRow, RewardsSummary

if TYPE_CHECKING:
    from rich.table import Table


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
        "metrics": {row.metric: _metric(row) for row in summary.rows},
        "keep": kept and kept.keep,
        "explore": kept and kept.explore,
        "keep_null": kept and kept.keep_null,
        "explore_null": kept and kept.explore_null,
    }


def passk_table(
    summary: RewardsSummary, source: Path, against: Path | None, retention_k: int
) -> "Table":
    """For people: in per cent."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=_caption(summary, retention_k))
    table.add_column("", no_wrap=True)
    table.add_column(source.name, justify="right", no_wrap=True)
    if against is not None:
        table.add_column(against.name, justify="right", no_wrap=True)
        table.add_column("difference", justify="right", no_wrap=True)
    for row in summary.rows:
        table.add_row(row.metric.replace("pass_at_", "pass@"), *_cells(row))
    if summary.retention is not None:
        kept = summary.retention
        table.add_row("keep", percent(kept.keep), percent(kept.keep_null), "")
        table.add_row("explore", percent(kept.explore), percent(kept.explore_null), "")
    return table


def _caption(summary: RewardsSummary, retention_k: int) -> str:
    fewest, most = summary.fewest_samples, summary.most_samples
    lines = [
        f"{summary.problems} problems, {fewest if fewest == most else f'{fewest} to {most}'} "
        "samples each; in per cent, with 95% intervals over problems"
    ]
    if any(row.estimate.exact or (row.against and row.against.exact) for row in summary.rows):
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


def _cells(row: MetricRow) -> list[str]:
    cells = [_estimate(row.estimate)]
    if row.against is not None and row.difference is not None:
        apart = row.difference
        cells += [_estimate(row.against), points(apart.mean, [apart.lo, apart.hi])]
    return cells


def _estimate(estimate: Estimate) -> str:
    return percent(estimate.value, [estimate.lo, estimate.hi])


def _metric(row: MetricRow) -> dict[str, Any]:
    found = _estimate_json(row.estimate)
    if row.against is not None and row.difference is not None:
        apart = row.difference
        found |= {
            "against": _estimate_json(row.against),
            "difference": {"mean": apart.mean, "ci95": [apart.lo, apart.hi]},
        }
    return found


def _estimate_json(estimate: Estimate) -> dict[str, Any]:
    interval = "exact" if estimate.exact else "bootstrap"
    return {"value": estimate.value, "ci95": [estimate.lo, estimate.hi], "interval": interval}


def comparison_json(
    labels: Mapping[str, str], rows: Sequence[ComparisonRow], on_sets: Sequence[RunOnSet]
) -> dict[str, Any]:
    """For machines: one object a row; fractions in [0, 1]. Runs are named by their paths."""
    return {
        "schema": 1,
        "baseline": next(iter(labels)),
        "labels": dict(labels),
        "rows": [_row_json(row) for row in rows],
        "sets": [_set_json(on_set) for on_set in on_sets],
        "problems": [_problem_json(on_set, one) for on_set in on_sets for one in on_set.changed],
    }


def comparison_text(
    labels: Mapping[str, str], rows: Sequence[ComparisonRow], on_sets: Sequence[RunOnSet]
) -> str:
    """For people: metrics with differences, then styles, keep and explore, then problems."""
    named = [replace(row, run=labels[row.run]) for row in rows]
    tables = [differences_table(named), _sets_table(labels, on_sets)]
    if any(on_set.changed for on_set in on_sets):
        tables.append(_problems_table(labels, on_sets))
    return "\n\n".join(map(table_text, tables))


def _sets_table(labels: Mapping[str, str], on_sets: Sequence[RunOnSet]) -> "Table":
    caption = "keep, explore: of the baseline's problems; in brackets, its score against itself"
    table = _table(caption, "set", "run", "effective styles", "keep", "explore")
    last = ""
    for on_set in on_sets:
        kept = on_set.retention
        table.add_row(
            set_label(on_set.set_name) if on_set.set_name != last else "",
            labels[on_set.run],
            count(on_set.effective_styles),
            _with_null(kept.keep, kept.keep_null),
            _with_null(kept.explore, kept.explore_null),
        )
        last = on_set.set_name
    return table


def _problems_table(labels: Mapping[str, str], on_sets: Sequence[RunOnSet]) -> "Table":
    table = _table("the problems that changed most", "set", "run", "problem", "correct", "before")
    for on_set in on_sets:
        for one in on_set.changed:
            table.add_row(
                set_label(on_set.set_name),
                labels[on_set.run],
                one.problem_id,
                f"{one.correct}/{one.samples}",
                f"{one.baseline_correct}/{one.baseline_samples}",
            )
    return table


def _table(caption: str, *titles: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=caption)
    for title in titles:
        table.add_column(title, no_wrap=True)
    return table


def _with_null(value: float | None, null: float | None) -> str:
    return percent(value) if null is None else f"{percent(value)} ({percent(null)})"


def _set_json(on_set: RunOnSet) -> dict[str, Any]:
    kept = on_set.retention
    return {
        "set": on_set.set_name,
        "run": on_set.run,
        "styles": dict(on_set.shares),
        "effective_styles": on_set.effective_styles,
        "keep": kept.keep,
        "explore": kept.explore,
        "keep_null": kept.keep_null,
        "explore_null": kept.explore_null,
    }


def _problem_json(on_set: RunOnSet, one: ChangedProblem) -> dict[str, Any]:
    return {"set": on_set.set_name, "run": on_set.run, **asdict(one), "change": one.change}


def _row_json(row: ComparisonRow) -> dict[str, Any]:
    d = row.difference
    return {
        "set": row.set_name,
        "metric": row.metric,
        "run": row.run,
        "value": row.value,
        "ci95": [row.lo, row.hi],
        "difference": None if d is None else {"mean": d.mean, "ci95": [d.lo, d.hi]},
    }
