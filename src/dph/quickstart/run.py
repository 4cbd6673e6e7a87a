"""The quickstart: build the world, train the base model, pre-sample, train, evaluate, compare."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from dph.errors import SettingsError
from dph.files import make_directory, read_json, write_json
from dph.quickstart.base_model import train_base_model
from dph.quickstart.recipes import (
    THREADS,
    Contender,
    Size,
    parse_contender,
    quickstart_recipe,
)
from dph.quickstart.world import World, build_world
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import ProgressDisplay
from dph.runs.training_stage import train_stage
from dph.runs.workbench import open_workbench
from dph.settings import Recipe

SCHEMA = 2
DEFAULT_METHODS = ("grpo", "dph_f", "dph_js")


def quickstart(
    directory: Path,
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    seed: int,
    progress: ProgressDisplay,
    size: Size | None = None,
) -> dict[str, Any]:
    """Run everything that is not done yet in ``directory`` and return the summary.

    Leaves ``world/``, ``base_model/``, ``pool/``, ``base/`` (the base model's evaluation), a run
    directory for each method, and ``summary.json``. Killed at any moment and started again with the
    same arguments it goes on and ends with the same weights and metrics.

    Raises:
        SettingsError: a method is unknown or named twice.
        DataError: the directory holds a quickstart of another seed or size.
        KeyboardInterrupt: Ctrl-C, after training has written a checkpoint.
    """
    size = size or Size()
    contenders = _contenders(methods)
    torch.set_num_threads(THREADS)
    clock = StageClock(make_directory(directory) / "seconds.json")
    with clock.stage("world"):
        progress.say("building databases and questions")
        world = build_world(directory / "world", seed=seed, sizes=size.world)
    with (
        clock.stage("base_model"),
        progress.task("base model", size.base_steps, "steps") as advance,
    ):
        train_base_model(
            world,
            directory / "base_model",
            seed=seed,
            steps=size.base_steps,
            on_progress=lambda amount: advance(amount, ""),
        )
    recipes = {c.label: _recipe(c, world, directory, seed, size) for c in contenders}
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


def _contenders(methods: Sequence[str]) -> list[Contender]:
    if not methods or len(set(methods)) < len(methods):
        raise SettingsError(f"name at least one method, each once, got {', '.join(methods)!r}")
    return [parse_contender(label) for label in methods]


def _recipe(contender: Contender, world: World, directory: Path, seed: int, size: Size) -> Recipe:
    return quickstart_recipe(
        contender,
        world,
        base_model=directory / "base_model",
        pool=directory / "pool",
        seed=seed,
        size=size,
    )


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
        with clock.stage(f"train {recipe.name}"):
            trained = train_stage(bench, run, progress)
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
