"""Choose which of a run's checkpoints is its result."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dph.errors import CheckpointError
from dph.recipe import EvaluationSettings
from dph.runs.layout import CONSOLIDATION, latest_checkpoint
from dph.runs.train.best_checkpoint import best_place

if TYPE_CHECKING:
    from dph.runs.train.preparation import Trained  # loads torch


def result_model(directory: Path, settings: EvaluationSettings) -> Path | None:
    """The checkpoint that a run ends with; None where there is none yet.

    That of its consolidation where there is one, else RL's: the newest, or with ``evaluate.result =
    "best"`` the best of those that were measured, once one is.

    Raises:
        CheckpointError: the file that says which is the best is damaged.
    """
    after = latest_checkpoint(directory / CONSOLIDATION / "checkpoints")
    newest = latest_checkpoint(directory / "checkpoints")
    if after is not None or settings.result == "newest":
        return after or newest
    return best_place(directory / "checkpoints", score=settings.keep_best) or newest


def ended(trained: "Trained", settings: EvaluationSettings) -> "Trained":
    """Training with the checkpoint that is its result; where it was stopped, the newest.

    Raises:
        CheckpointError: it is to be the best, and none was measured.
    """
    if trained.stopped or settings.result == "newest":
        return trained
    best = best_place(trained.checkpoint.parent, score=settings.keep_best)
    if best is None:
        raise CheckpointError(
            f"evaluate.result = 'best', but no checkpoint in {trained.checkpoint.parent} was "
            f"measured by {settings.keep_best!r}: either none of its sets could be graded, or all "
            f"used a different score; set evaluate.result = 'newest'"
        )
    return replace(trained, checkpoint=best)
