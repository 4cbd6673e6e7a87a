"""The stages of a quickstart that can run side by side, in this process or in children of it."""

import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dph._base.files import held, read_json, write_json
from dph._processes.jobs.cores import CoreJobs
from dph._processes.jobs.processes import Job
from dph.errors import DataError, TrainingError
from dph.recipe import Recipe, recipe_toml, resolve_recipe
from dph.runs.directory import RunDirectory
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import ProgressDisplay, ShownProgress, ToldProgress
from dph.runs.run import trained_policy
from dph.runs.store_stage import shared_store_stage
from lab.quickstart.recipes import THREADS

# How long the stages of something took, kept in a file beside it.

TOTAL = "total"


class StageClock:
    """Seconds a stage took, added up over the times that it was started.

    Several processes may add to one file. The stage ``total`` is the time that passed, whatever
    ran side by side in it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def seconds(self) -> dict[str, float]:
        """Seconds by stage, and ``total`` as the last: its own, or else their sum."""
        spent = self._spent()
        total = spent.pop(TOTAL, None)
        return {**spent, TOTAL: round(sum(spent.values()), 2) if total is None else total}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to the stage ``name``."""
        started = time.perf_counter()
        try:
            yield
        finally:
            passed = time.perf_counter() - started
            with held(self._path.with_name(f".{self._path.name}.lock")):
                spent = self._spent()
                seconds = round(spent.get(name, 0.0) + passed, 2)
                write_json(self._path, {**spent, name: seconds})

    def _spent(self) -> dict[str, float]:
        return dict(read_json(self._path)) if self._path.exists() else {}


_CLOCK = "seconds.json"
_CHECKPOINT = 30.0
"""Seconds that children have for a last checkpoint when somebody asks for an end."""


@dataclass(frozen=True, slots=True)
class QuickstartStage:
    """One of ``STAGES``, for a recipe; those that it ``needs`` (their ids) come before it."""

    kind: str
    recipe: Recipe
    needs: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """Unique in a quickstart."""
        return self.kind if self.kind in SHARED else f"{self.kind} {self.recipe.name}"


SHARED = ("presample", "evaluate base")
"""Stages that are the same whatever recipe of a quickstart they are done for."""


def stages_of(recipes: Sequence[Recipe]) -> list[QuickstartStage]:
    """All that is to be done, in an order in which it can be.

    What makes stores comes first, because it takes longest; it needs no pool.
    """
    stages = [QuickstartStage(kind, recipes[0]) for kind in SHARED] + method_stages(recipes)
    return sorted(stages, key=lambda stage: stage.kind in SHARED or not stage.recipe.used_stores)


def method_stages(recipes: Sequence[Recipe]) -> list[QuickstartStage]:
    """The stages that each method runs separately."""
    stages: list[QuickstartStage] = []
    for recipe in recipes:
        pool = frozenset({"presample"} if recipe.reads_pool() else ())
        train = QuickstartStage("train", recipe, pool)
        stages += [
            train,
            QuickstartStage("evaluate", recipe, frozenset({train.id, "evaluate base"})),
        ]
    return stages


def presample(recipe: Recipe, directory: Path, progress: ProgressDisplay) -> None:
    """The pool that every method shares."""
    with open_plan(recipe, directory) as plan, clock_of(directory).stage("presample"):
        presample_stage(plan, progress)


def evaluate_base(recipe: Recipe, directory: Path, progress: ProgressDisplay) -> None:
    """The base model's evaluation, which every method's is compared with."""
    with open_plan(recipe, directory) as plan, clock_of(directory).stage("evaluate base"):
        evaluate_stage(plan, plan.directory.base.path, progress, model=plan.initial)


def train_method(recipe: Recipe, directory: Path, progress: ProgressDisplay) -> None:
    """Stores where the recipe reads some, and training.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM, after training has written a checkpoint.
    """
    run, clock = directory / recipe.name, clock_of(directory)
    with open_plan(recipe, run) as plan:
        if plan.stores:
            with clock.stage(f"stores {recipe.name}"):
                shared_store_stage(plan, progress, lock=directory / ".stores.lock")
        with clock.stage(f"train {recipe.name}"):
            trained = trained_policy(plan, progress)
        if trained.stopped:
            raise KeyboardInterrupt


def evaluate_method(recipe: Recipe, directory: Path, progress: ProgressDisplay) -> None:
    """The evaluation of what training ended with."""
    run = directory / recipe.name
    trained = RunDirectory(run).result(recipe.evaluate)
    assert trained is not None
    with open_plan(recipe, run) as plan, clock_of(directory).stage(f"evaluate {recipe.name}"):
        evaluate_stage(plan, run, progress, model=trained, base=RunDirectory(directory).base.path)


STAGES: Mapping[str, Callable[[Recipe, Path, ProgressDisplay], None]] = {
    "presample": presample,
    "evaluate base": evaluate_base,
    "train": train_method,
    "evaluate": evaluate_method,
}


def clock_of(directory: Path) -> StageClock:
    """The clock of all stages of a quickstart."""
    return StageClock(directory / _CLOCK)


@contextmanager
def stage_runner(
    directory: Path, progress: ProgressDisplay, *, jobs: int
) -> Iterator[Callable[[Sequence[QuickstartStage]], None]]:
    """Runner of stages, at most ``jobs`` at a time; with one job in this process, in order.

    Children begin to import what they need at once, whatever this process does meanwhile. Asked
    for an end (Ctrl-C), those that train write a checkpoint first.

    The function raises:
        DphError: a stage failed; its neighbours are ended too, and continue next time. What a child
            said is told as a DataError where it is bad input, else as a TrainingError.
    """
    if jobs == 1:
        yield lambda stages: _one_by_one(stages, directory, progress)
        return
    shown = ShownProgress(progress)
    children = CoreJobs(
        jobs,
        lambda job: directory / f".{job.replace(' ', '_')}.log",
        entry=f"{__name__}:run_told",
        on_line=shown.line,
    )
    children.prepare()
    try:
        yield lambda stages: _side_by_side(stages, children, directory)
    except KeyboardInterrupt:
        children.close(patience=_CHECKPOINT)
        raise
    finally:
        children.close()
        shown.close()


def _one_by_one(
    stages: Sequence[QuickstartStage], directory: Path, progress: ProgressDisplay
) -> None:
    waiting, undone = list(stages), {stage.id for stage in stages}
    while waiting:
        stage = _next(waiting, undone)
        assert stage is not None
        STAGES[stage.kind](stage.recipe, directory, progress)
        undone.remove(stage.id)


def _side_by_side(stages: Sequence[QuickstartStage], children: CoreJobs, directory: Path) -> None:
    waiting, undone = list(stages), {stage.id for stage in stages}
    running = 0
    while undone:
        while running < children.capacity and (stage := _next(waiting, undone)) is not None:
            children.start(_job(stage, directory))
            running += 1
        ended, running = children.wait(), running - 1
        if ended.error:
            kind = DataError if ended.bad_input else TrainingError
            raise kind(f"{ended.id}: {ended.error}")
        undone.remove(ended.id)


def _next(waiting: list[QuickstartStage], undone: Set[str]) -> QuickstartStage | None:
    """Take out the first stage that needs nothing of what is undone."""
    for stage in waiting:
        if not stage.needs & undone:
            waiting.remove(stage)
            return stage
    return None


def _job(stage: QuickstartStage, directory: Path) -> Job:
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
