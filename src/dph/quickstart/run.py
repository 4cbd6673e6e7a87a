"""The quickstart: build the world, train the base model, pre-sample, train, evaluate, compare."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from dph.errors import SettingsError
from dph.files import make_directory, read_json, write_json
from dph.quickstart.recipes import (
    THREADS,
    Contender,
    Size,
    parse_contender,
    quickstart_recipe,
)
from dph.quickstart.strengths import usual_strengths
from dph.quickstart.unlabelled import world_tables
from dph.runs.consolidation_stage import trained_policy
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import ProgressDisplay
from dph.runs.store_stage import store_stage
from dph.runs.workbench import open_workbench
from dph.settings import Recipe
from dph.worlds import World, WorldKind, newest_edition, world_kind

SCHEMA = 2
DEFAULT_METHODS = ("grpo", "dph_f", "dph_js")


def quickstart(
    directory: Path,
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    seed: int,
    progress: ProgressDisplay,
    size: Size | None = None,
    task: str = "sql",
    edition: int | None = None,
) -> dict[str, Any]:
    """Run everything that is not done yet in ``directory`` and return the summary.

    Leaves ``world/``, ``base_model/``, ``pool/``, ``stores/`` where a method reads one, ``base/``
    (the base model's evaluation), a run directory for each method, and ``summary.json``. Killed at
    any moment and started again with the same arguments it goes on and ends with the same weights
    and metrics.

    ``edition`` of the task's world [default: the newest].

    Raises:
        SettingsError: a method, a task or an edition is unknown, or a method is named twice.
        DataError: the directory holds a quickstart of another seed, world or size.
        KeyboardInterrupt: Ctrl-C, after training has written a checkpoint.
    """
    size = size or Size()
    edition = edition or newest_edition(task)
    kind = world_kind(task, edition)
    contenders = _contenders(methods, usual_strengths(task, edition))
    torch.set_num_threads(THREADS)
    clock = StageClock(make_directory(directory) / "seconds.json")
    with clock.stage("world"):
        progress.say("building the world")
        world = kind.build(directory / "world", seed=seed, sizes=size.world)
    base_model = directory / "base_model"
    _train_base_model(kind, world, base_model, seed, size, clock, progress)
    recipes = {
        contender.label: quickstart_recipe(
            contender,
            world_tables(kind, world, contender.method, directory / "stores"),
            base_model=base_model,
            pool=directory / "pool",
            seed=seed,
            size=size,
        )
        for contender in contenders
    }
    base = _prepare(next(iter(recipes.values())), directory, clock, progress)
    evaluations = {
        label: _run_method(recipe, directory, clock, progress) for label, recipe in recipes.items()
    }
    summary = {
        "schema": SCHEMA,
        "seed": seed,
        "base": {"sets": base["sets"]},
        "methods": {label: {"sets": e["sets"]} for label, e in evaluations.items()},
        "seconds": clock.seconds(),
    }
    write_json(directory / "summary.json", summary)
    return summary


def _train_base_model(
    kind: WorldKind,
    world: World,
    path: Path,
    seed: int,
    size: Size,
    clock: "StageClock",
    progress: ProgressDisplay,
) -> None:
    steps = size.base_steps or kind.base_steps
    with clock.stage("base_model"), progress.task("base model", steps, "steps") as advance:
        kind.train_base_model(
            world, path, seed=seed, steps=steps, on_progress=lambda amount: advance(amount, "")
        )


def _contenders(methods: Sequence[str], strengths: Mapping[str, float | None]) -> list[Contender]:
    if not methods or len(set(methods)) < len(methods):
        raise SettingsError(f"name at least one method, each once, got {', '.join(methods)!r}")
    return [parse_contender(label, strengths) for label in methods]


def _prepare(
    recipe: Recipe, directory: Path, clock: "StageClock", progress: ProgressDisplay
) -> dict[str, Any]:
    """The pool that every method shares, and the base model's evaluation."""
    with open_workbench(recipe) as bench:
        with clock.stage("presample"):
            presample_stage(bench, directory, progress)
        with clock.stage("evaluate base"):
            return evaluate_stage(
                bench, directory / "base", progress, model=directory / "base_model"
            )


def _run_method(
    recipe: Recipe, directory: Path, clock: "StageClock", progress: ProgressDisplay
) -> dict[str, Any]:
    run = directory / recipe.name
    with open_workbench(recipe) as bench:
        if recipe.used_stores:
            with clock.stage("stores"):
                store_stage(bench, run, progress)
        with clock.stage(f"train {recipe.name}"):
            trained = trained_policy(bench, run, progress)
        if trained.stopped:
            raise KeyboardInterrupt
        with clock.stage(f"evaluate {recipe.name}"):
            return evaluate_stage(
                bench, run, progress, model=trained.checkpoint, base=directory / "base"
            )


class StageClock:
    """Seconds a stage took, added up over the times that a quickstart was started."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def seconds(self) -> dict[str, float]:
        """Seconds by stage, and their total."""
        spent = read_json(self._path) if self._path.exists() else {}
        return {**spent, "total": round(sum(spent.values()), 2)}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to the stage ``name``."""
        started = time.perf_counter()
        try:
            yield
        finally:
            spent = read_json(self._path) if self._path.exists() else {}
            seconds = spent.get(name, 0.0) + time.perf_counter() - started
            write_json(self._path, {**spent, name: round(seconds, 2)})
