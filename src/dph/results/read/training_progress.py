"""Progress of a run: its step, whether it still trains, and the seconds left. Loads no torch."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from dph.recipe import Recipe

State = Literal["running", "stopped", "failed", "finished"]
_LOCKS = Path("/proc/locks")
_LATEST = 20
"""Steps whose median is taken for the time of one that is to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """Step ``step`` of ``steps``; ``seconds_left`` is None unless it runs.

    ``running``: a process holds the directory's lock. ``failed``: it ended with a loss that was not
    finite. ``stopped``: it ended before its last step.
    """

    stage: str
    step: int
    steps: int
    state: State
    seconds_left: float | None

    def document(self) -> dict[str, Any]:
        """For pages."""
        return asdict(self)


def training_progress(
    path: Path,
    recipe: Recipe | None,
    log: Sequence[Mapping[str, Any]],
    *,
    locks: Collection[int] | None = None,
) -> list[TrainingProgress]:
    """Progress of training; none of what has no recipe or has not begun.

    ``locks`` are inodes of files that are locked [default: those of this machine].
    """
    if recipe is None:
        return []
    held = _held_locks() if locks is None else locks
    steps = recipe.train.steps
    step = max((int(row["step"]) for row in log), default=0)
    state = _state(path, step, steps, running=_inode(path / ".lock") in held)
    left = _left(log, steps - step) if state == "running" else None
    found = TrainingProgress(
        stage="training", step=step, steps=steps, state=state, seconds_left=left
    )
    return [found] if step or state == "running" else []


def _state(place: Path, step: int, steps: int, *, running: bool) -> State:
    if step >= steps:
        return "finished"
    if running:
        return "running"
    failed = place / f"failed_batch_step_{step + 1:06d}.json"  # those of earlier tries stay
    return "failed" if failed.exists() else "stopped"


def _left(rows: Sequence[Mapping[str, Any]], steps: int) -> float | None:
    """Seconds of the steps to come; None before the first."""
    seconds = [row["seconds"] for row in rows if isinstance(row.get("seconds"), int | float)]
    return steps * median(seconds[-_LATEST:]) if seconds else None


def _held_locks() -> set[int]:
    """Inodes of the files that some process has locked; none where the kernel does not list them.

    Trying a lock would keep a run from starting at that moment, so the list is read.
    """
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return set()
    fields = (line.split() for line in lines)
    return {int(of[5].rpartition(":")[2]) for of in fields if len(of) > 5 and of[1] != "->"}


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
