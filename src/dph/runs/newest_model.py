"""Which of a run's checkpoints is its result."""

from pathlib import Path

from dph.runs.layout import CONSOLIDATION
from dph.training.checkpoint_places import latest_checkpoint


def newest_model(directory: Path) -> Path | None:
    """The newest checkpoint of a run: of its consolidation where there is one, else of RL."""
    after = latest_checkpoint(directory / CONSOLIDATION / "checkpoints")
    return after or latest_checkpoint(directory / "checkpoints")
