"""Grading of a file with progress on stderr and a summary on stdout, whatever grades it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dph.cli.display.output import json_text
from dph.cli.display.progress import open_progress

if TYPE_CHECKING:
    from dph.tasks.grading import GradeSummary, RowGrader


def default_workers() -> int:
    """A worker for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_grading(
    source: Path, target: Path, *, grader: "RowGrader", resume: bool, replace: bool, as_json: bool
) -> None:
    """Grade ``source`` into ``target`` and print what came out."""
    from dph._base.files.rows import count_rows
    from dph.tasks.grading import grade_file

    with open_progress().task("grade", count_rows(source), "rows") as advance:
        summary = grade_file(
            source,
            target,
            grader=grader,
            resume=resume,
            replace=replace,
            on_progress=lambda rows: advance(rows, ""),
        )
    if as_json:
        typer.echo(json_text(summary_json(summary, source, target)))
    else:
        typer.echo(summary_text(summary, target))


def summary_json(summary: "GradeSummary", source: Path, target: Path) -> dict[str, Any]:
    """The summary as JSON."""
    speed = summary.rows_per_second
    return {
        "schema": 2,
        "input": str(source),
        "out": str(target),
        "rows": summary.rows,
        "graded_now": summary.graded,
        "mean_reward": summary.mean_reward,
        "mean_rows": summary.rows - summary.ungradable,
        "ungradable": summary.ungradable,
        "outcomes": {str(outcome): count for outcome, count in summary.outcomes.items()},
        "seconds": round(summary.seconds, 3),
        "rows_per_second": None if speed is None else round(speed, 1),
    }


def summary_text(summary: "GradeSummary", target: Path) -> str:
    """The summary for people: outcomes that occur, most frequent first."""
    lines = [f"{'outcome':<12}{'rows':>9}{'share':>9}"]
    ranked = sorted(summary.outcomes.items(), key=lambda item: -item[1])
    for outcome, count in ranked:
        if count:
            lines.append(f"{outcome:<12}{count:>9}{count / summary.rows:>9.1%}")
    mean = "" if summary.mean_reward is None else f", mean reward {summary.mean_reward:.4f}"
    if summary.ungradable:
        counts = (f"{n} {outcome}" for outcome, n in summary.ungradable_outcomes.items())
        over = "" if summary.mean_reward is None else f" over {summary.rows - summary.ungradable}"
        mean += f"{over} ({', '.join(counts)}: could not be graded, and not in the mean)"
    speed = summary.rows_per_second
    rate = "" if speed is None else f", {speed:,.0f} rows/s"
    earlier = summary.rows - summary.graded
    resumed = f" ({earlier} of them by an earlier run)" if earlier else ""
    lines.append(f"{summary.rows} rows{resumed}{mean}, {summary.seconds:.1f} s{rate} -> {target}")
    return "\n".join(lines)
