"""Where a directory's checkpoints lie, without reading one: without torch."""

import re
from pathlib import Path

_NAME = re.compile(r"step_(\d{6,})")


def latest_checkpoint(directory: Path) -> Path | None:
    """The checkpoint with the most steps, or None."""
    return next(reversed(checkpoints_in_order(directory)), None)


def checkpoints_in_order(directory: Path) -> list[Path]:
    """The checkpoints, those of fewer steps first."""
    found = [path for path in directory.glob("step_*") if _NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def step_of(checkpoint: Path) -> int:
    """After how many steps it was saved, by its name."""
    return int(checkpoint.name.removeprefix("step_"))
