"""The best checkpoint by the score that ``evaluate.keep_best`` names: ``best.json``."""

from dataclasses import asdict, dataclass
from pathlib import Path

from dph._base.files import read_json, write_json
from dph.errors import CheckpointError, DataError

BEST_FILE = "best.json"
_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BestCheckpoint:
    """The step of a checkpoint, and the score that it had there."""

    step: int
    score: str
    value: float


def read_best(directory: Path, *, score: str | None) -> BestCheckpoint | None:
    """The best checkpoint of those in ``directory`` by ``score``; None where none is known.

    One that was the best by another score is none.

    Raises:
        CheckpointError: the file is damaged.
    """
    path = directory / BEST_FILE
    if score is None or not path.exists():
        return None
    try:
        content = dict(read_json(path))
        content.pop("schema")
        best = BestCheckpoint(**content)
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {error}; remove it to continue") from error
    there = _place(directory, best).is_dir()
    return best if best.score == score and there else None


def best_place(directory: Path, *, score: str | None) -> Path | None:
    """The best checkpoint itself.

    Raises:
        CheckpointError: as of ``read_best``.
    """
    best = read_best(directory, score=score)
    return None if best is None else _place(directory, best)


def _place(directory: Path, best: BestCheckpoint) -> Path:
    return directory / f"step_{best.step:06d}"


def write_best(directory: Path, best: BestCheckpoint) -> None:
    """Name the best checkpoint."""
    write_json(directory / BEST_FILE, {"schema": _SCHEMA, **asdict(best)})
