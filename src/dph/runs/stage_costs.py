"""Cost of a run, stage by stage: answers drawn, their tokens, seconds. Loads no torch.

Pre-sampling counts in full for every run that reads a pool, even where runs share one: each would
have drawn it alone. A verdict, an evaluation and the initial model are no part of it.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dph._base.files import read_json, write_json
from dph.recipe import Recipe
from dph.runs.directory import RunDirectory, is_made, read_metrics
from dph.runs.presample.manifest import read_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """A stage's answers, their tokens and seconds; None: its files do not say."""

    stage: str
    answers: int | None
    tokens: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RunCost:
    """The stages of a run that drew or trained, in their order."""

    stages: Sequence[StageCost]

    @property
    def answers(self) -> int | None:
        """Of all stages that say it; None where none does."""
        known = [one.answers for one in self.stages if one.answers is not None]
        return sum(known) if known else None

    @property
    def tokens(self) -> int | None:
        """Of all drawn answers, likewise."""
        known = [one.tokens for one in self.stages if one.tokens is not None]
        return sum(known) if known else None

    @property
    def seconds(self) -> float | None:
        """Of all stages, likewise."""
        known = [one.seconds for one in self.stages if one.seconds is not None]
        return sum(known) if known else None

    @property
    def untimed(self) -> list[str]:
        """Stages whose seconds are not known: the sum is short of theirs."""
        return [one.stage for one in self.stages if one.seconds is None]


def run_cost(run: Path, recipe: Recipe | None) -> RunCost:
    """Cost of each stage of ``run`` on disk; files that were removed since are not counted."""
    before = [] if recipe is None else _pool(RunDirectory(run).pool(recipe), recipe)
    return RunCost([*before, *_training(RunDirectory(run))])


def note_seconds(place: Path, seconds: float) -> None:
    """Write down how long a pool took, next to it: the same pool has the same bytes."""
    write_json(_seconds_file(place), {"seconds": round(seconds, 2)})


@contextmanager
def timed(place: Path) -> Iterator[None]:
    """Add the seconds of a block that makes or completes a pool; none where it fails."""
    is_there, started = is_made(place), time.perf_counter()
    before = noted_seconds(place) if is_there else None
    yield
    note_seconds(place, (before or 0.0) + time.perf_counter() - started)


def noted_seconds(place: Path) -> float | None:
    """The seconds that were written down; None where nobody did."""
    path = _seconds_file(place)
    return float(read_json(path)["seconds"]) if path.is_file() else None


def _seconds_file(place: Path) -> Path:
    return place.with_name(f"{place.name}.seconds.json")


def _pool(place: Path, recipe: Recipe) -> Iterator[StageCost]:
    """Cost of a pool, where it is."""
    if recipe.needs_pool and is_made(place):
        counts = read_manifest(place).counts
        yield StageCost(
            stage="pre-sampling",
            answers=counts.answers,
            tokens=counts.tokens,
            seconds=noted_seconds(place),
        )


def _training(run: RunDirectory) -> Iterator[StageCost]:
    rows = read_metrics(run.metrics)
    if not rows:
        return
    drew = [row for row in rows if row.get("tokens") is not None]
    timed = [float(row["seconds"]) for row in rows if row.get("seconds") is not None]
    yield StageCost(
        stage="training",
        answers=sum(_answers(row["tokens"], row.get("completion_tokens")) for row in drew)
        if drew
        else None,
        tokens=sum(int(row["tokens"]) for row in drew) if drew else None,
        seconds=sum(timed) if timed else None,
    )


def _answers(tokens: float, of_each: float | None) -> int:
    """A step's answers: its tokens over the mean of one."""
    return round(tokens / of_each) if of_each else 0
