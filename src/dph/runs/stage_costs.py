"""Cost of each stage of a run: sampled answers, their tokens, and seconds. Does not load torch.

Every run that reads a pool is charged for all of its pre-sampling, even if runs share the pool:
each would have sampled it. Verdicts, evaluations and the initial model are not charged.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dph._base.files import read_json, write_json
from dph.recipe import Recipe
from dph.runs.directory import RunDirectory, is_made, read_metrics
from dph.runs.presample.manifest import read_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """Answers, tokens and seconds of a stage; None if its files do not tell."""

    stage: str
    answers: int | None
    tokens: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RunCost:
    """Costs of a run's stages, in order, and totals; a total is None if all are unknown."""

    stages: Sequence[StageCost]

    @property
    def answers(self) -> int | None:
        """Total number of sampled answers."""
        return _sum(one.answers for one in self.stages)

    @property
    def tokens(self) -> int | None:
        """Total number of tokens in the answers."""
        return _sum(one.tokens for one in self.stages)

    @property
    def seconds(self) -> float | None:
        """Total of the known seconds."""
        return _sum(one.seconds for one in self.stages)

    @property
    def untimed(self) -> list[str]:
        """Stages of unknown duration, which ``seconds`` leaves out."""
        return [one.stage for one in self.stages if one.seconds is None]


Number = TypeVar("Number", int, float)


def _sum(values: Iterable[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def run_cost(run: Path, recipe: Recipe | None) -> RunCost:
    """Cost of each stage of ``run``, as far as its remaining files tell."""
    before = [] if recipe is None else _pool(RunDirectory(run).pool(recipe), recipe)
    return RunCost([*before, *_training(RunDirectory(run))])


def note_seconds(place: Path, seconds: float) -> None:
    """Write a pool's seconds next to it, not into it, so that equal pools have equal bytes."""
    write_json(_seconds_file(place), {"seconds": round(seconds, 2)})


@contextmanager
def timed(place: Path) -> Iterator[None]:
    """Add the duration of a block that makes or completes a pool, also of one that is interrupted.

    One that ends before the pool's first part is there leaves no note.
    """
    partial, started = place.with_name(f"{place.name}.partial"), time.perf_counter()
    before = noted_seconds(place) if is_made(place) or partial.exists() else None
    done = False
    try:
        yield
        done = True
    finally:
        if done or partial.exists():
            note_seconds(place, (before or 0.0) + time.perf_counter() - started)


def noted_seconds(place: Path) -> float | None:
    """A pool's recorded seconds; None if there is no record."""
    path = _seconds_file(place)
    return float(read_json(path)["seconds"]) if path.is_file() else None


def _seconds_file(place: Path) -> Path:
    return place.with_name(f"{place.name}.seconds.json")


def _pool(place: Path, recipe: Recipe) -> Iterator[StageCost]:
    if recipe.needs_pool and is_made(place):
        counts = read_manifest(place).counts
        yield StageCost(
            stage="pre-sampling",
            answers=counts.answers,
            tokens=counts.tokens,
            seconds=noted_seconds(place),
        )


def _training(run: RunDirectory) -> Iterator[StageCost]:
    if rows := read_metrics(run.metrics):
        with_tokens = [row for row in rows if row.get("tokens") is not None]
        yield StageCost(
            stage="training",
            answers=_sum(
                round(row["tokens"] / mean) if (mean := row.get("completion_tokens")) else 0
                for row in with_tokens
            ),
            tokens=_sum(int(row["tokens"]) for row in with_tokens),
            seconds=_sum(float(row["seconds"]) for row in rows if row.get("seconds") is not None),
        )
