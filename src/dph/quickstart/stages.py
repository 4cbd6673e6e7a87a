"""The stages of a quickstart that can run side by side, in this process or in children of it."""

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dph.errors import DataError, TrainingError
from dph.files import held
from dph.jobs.cores import CoreJobs
from dph.jobs.job import Job
from dph.quickstart.recipes import THREADS
from dph.quickstart.stage_clock import StageClock
from dph.runs.consolidation_stage import trained_policy
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import ProgressDisplay
from dph.runs.store_stage import shared_store_stage
from dph.runs.told_progress import ShownProgress, ToldProgress
from dph.runs.workbench import open_workbench
from dph.settings import Recipe, recipe_toml, resolve_recipe

_CLOCK = "seconds.json"
_CHECKPOINT = 30.0
"""Seconds that children have for a last checkpoint when somebody asks for an end."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One of ``STAGES``, for a recipe."""

    kind: str
    recipe: Recipe

    @property
    def id(self) -> str:
        """Unique in a quickstart."""
        return f"{self.kind} {self.recipe.name}"


def presample(recipe: Recipe, directory: Path, progress: ProgressDisplay) -> None:
    """The pool that every method shares."""
    with open_workbench(recipe) as bench, clock_of(directory).stage("presample"):
        presample_stage(bench, directory, progress)


def evaluate_base(recipe: Recipe, directory: Path, progress: ProgressDisplay) -> None:
    """The base model's evaluation, which every method's is compared with."""
    with open_workbench(recipe) as bench, clock_of(directory).stage("evaluate base"):
        evaluate_stage(bench, directory / "base", progress, model=bench.initial)


def train_method(recipe: Recipe, directory: Path, progress: ProgressDisplay) -> None:
    """Stores where the recipe reads some, training, and the evaluation of what came out.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM, after training has written a checkpoint.
    """
    run, clock = directory / recipe.name, clock_of(directory)
    with open_workbench(recipe) as bench:
        if recipe.used_stores:
            with clock.stage(f"stores {recipe.name}"):
                shared_store_stage(bench, run, progress, lock=directory / ".stores.lock")
        with clock.stage(f"train {recipe.name}"):
            trained = trained_policy(bench, run, progress)
        if trained.stopped:
            raise KeyboardInterrupt
        with clock.stage(f"evaluate {recipe.name}"):
            evaluate_stage(bench, run, progress, model=trained.checkpoint, base=directory / "base")


STAGES: Mapping[str, Callable[[Recipe, Path, ProgressDisplay], None]] = {
    "presample": presample,
    "evaluate base": evaluate_base,
    "train": train_method,
}


def clock_of(directory: Path) -> StageClock:
    """The clock of all stages of a quickstart."""
    return StageClock(directory / _CLOCK)


def run_stages(
    stages: Sequence[Stage], directory: Path, progress: ProgressDisplay, *, jobs: int
) -> None:
    """Run ``stages``, at most ``jobs`` at a time; with one job in this process, in order.

    Side by side, those that also make stores begin first: they take longest.

    Asked for an end (Ctrl-C), children that train write a checkpoint first.

    Raises:
        DphError: a stage failed; those beside it are ended too, and go on next time. What a child
            said is told as a DataError where it is bad input, else as a TrainingError.
    """
    if min(jobs, len(stages)) == 1:
        for stage in stages:
            STAGES[stage.kind](stage.recipe, directory, progress)
        return
    shown = ShownProgress(progress)
    children = CoreJobs(
        jobs,
        lambda job: directory / f".{job.replace(' ', '_')}.log",
        entry=f"{__name__}:run_told",
        on_line=shown.line,
    )
    waiting = sorted(stages, key=lambda stage: not stage.recipe.used_stores)
    running = 0
    try:
        while waiting or running:
            while waiting and running < children.capacity:
                children.start(_job(waiting.pop(0), directory))
                running += 1
            ended, running = children.wait(), running - 1
            if ended.error:
                kind = DataError if ended.bad_input else TrainingError
                raise kind(f"{ended.id}: {ended.error}")
    except KeyboardInterrupt:
        children.close(patience=_CHECKPOINT)
        raise
    finally:
        children.close()
        shown.close()


def _job(stage: Stage, directory: Path) -> Job:
    payload = {
        "id": stage.id,
        "kind": stage.kind,
        "recipe": recipe_toml(stage.recipe),
        "directory": str(directory.resolve()),
    }
    return Job(stage.id, payload)


def run_told(payload: Mapping[str, Any]) -> None:
    """Run the stage of a job in a child, and print its progress for the parent."""
    torch.set_num_threads(THREADS)
    directory = Path(payload["directory"])
    recipe = resolve_recipe(tomllib.loads(payload["recipe"]))
    with held(directory / f".{payload['id'].replace(' ', '_')}.lock"):
        STAGES[payload["kind"]](recipe, directory, ToldProgress(sys.stdout))
