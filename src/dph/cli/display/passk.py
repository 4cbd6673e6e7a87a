"""What ``dph passk`` prints."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dph.results.charts.cells import percent, points
from dph.runs.evaluate.rewards_summary import Estimate, MetricRow, RewardsSummary

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
    if summary.left_out:
        lines.append(f"{len(summary.left_out)} problem(s) left out: their gold cannot be graded")
    if summary.retention is not None and summary.retention.keep_null is None:
        lines.append(
            f"keep and explore need {2 * retention_k} samples of every problem "
            "(fewer: --retention-k)"
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
    found: dict[str, Any] = {
        "value": row.estimate.value,
        "ci95": [row.estimate.lo, row.estimate.hi],
    }
    if row.against is not None and row.difference is not None:
        apart = row.difference
        found |= {
            "against": {"value": row.against.value, "ci95": [row.against.lo, row.against.hi]},
            "difference": {"mean": apart.mean, "ci95": [apart.lo, apart.hi]},
        }
    return found
