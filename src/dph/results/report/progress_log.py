"""A run's log with what was measured before its first step, where it measured while it trained."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dph.recipe import Recipe
from dph.runs.evaluate.progress_file import PROGRESS_FILE, read_progress_file, rows_of_step
from dph.runs.evaluate.progress_summary import step_metrics_of, step_summary
from dph.runs.layout import CONSOLIDATION, METRICS
from dph.runs.train.metrics_file import read_metrics


def training_log(run: Path, recipe: Recipe | None) -> list[Mapping[str, Any]]:
    """The rows of ``metrics.jsonl``; before them one of step 0, if ``progress.parquet`` has it.

    Raises:
        DataError: a file is damaged.
    """
    rows: list[Mapping[str, Any]] = list(read_metrics(run / METRICS))
    initial = rows_of_step(read_progress_file(run / PROGRESS_FILE), 0)
    if recipe is None or not rows or not initial.num_rows:
        return rows
    ks, seed = recipe.evaluate.during.k, recipe.evaluate.seed
    summary = step_summary(initial, ks=ks, seed=recipe.seed if seed is None else seed)
    return [{"step": 0, **step_metrics_of(summary)}, *rows]


def log_after_rl(run: Path) -> list[Mapping[str, Any]]:
    """The rows of what followed RL, whose steps begin again at 1; none where nothing did.

    Raises:
        DataError: the file is damaged.
    """
    return list(read_metrics(run / CONSOLIDATION / METRICS))
