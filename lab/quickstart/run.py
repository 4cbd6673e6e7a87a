"""The quickstart: build the world, train the base model, pre-sample, train, evaluate, compare."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dph._base.files import make_directory, write_json
from dph.errors import SettingsError
from dph.recipe import Recipe
from dph.results.charts.tables import cost_document
from dph.runs.directory import EvaluationDirectory, RunDirectory
from dph.runs.evaluate.scores import read_evaluation
from dph.runs.progress import ProgressDisplay
from dph.runs.stage_costs import run_cost
from lab.quickstart.recipes import (
    THREADS,
    Contender,
    Size,
    parse_contender,
    quickstart_recipe,
    world_tables,
)
from lab.quickstart.stages import TOTAL, StageClock, clock_of, stage_runner, stages_of
from lab.worlds import WorldKind, world_kind

SCHEMA = 3


def quickstart(
    directory: Path,
    *,
    methods: Sequence[str] | None = None,
    seed: int,
    progress: ProgressDisplay,
    size: Size | None = None,
    task: str = "sql",
    edition: int | None = None,
    jobs: int = 1,
) -> dict[str, Any]:
    """Run everything that is not done yet in ``directory`` and return the summary.

    Leaves ``world/``, ``base_model/``, ``pool/``, ``stores/`` where a method reads one, ``base/``
    (the base model's evaluation), a run directory for each method, and ``summary.json``. Killed at
    any moment and started again with the same arguments it goes on and ends with the same weights
    and metrics.

    ``methods`` [default: the world's contenders]; ``edition`` of the task's world [default: the
    newest]; ``jobs`` processes share the work, which decides nothing but time.

    Raises:
        SettingsError: a method, a task or an edition is unknown, a method is named twice, or a
            strength is out of range.
        DataError: the directory holds a quickstart of another seed, world or size.
        KeyboardInterrupt: Ctrl-C, after training has written a checkpoint.
    """
    kind = world_kind(task, edition)
    size = size or Size(**kind.budget)
    contenders = _contenders(kind.contenders if methods is None else methods, kind.strengths)
    _require_settings(contenders, seed, size)
    if kind.require is not None:
        kind.require()
    torch.set_num_threads(THREADS)
    clock = clock_of(make_directory(directory))
    with clock.stage(TOTAL), stage_runner(directory, progress, jobs=jobs) as run:
        recipes = _prepared(kind, contenders, directory, seed, size, clock, progress)
        run(stages_of(list(recipes.values())))
    summary = {
        "schema": SCHEMA,
        "seed": seed,
        "base": _sets(RunDirectory(directory).base),
        "methods": {label: _sets(RunDirectory(directory / r.name)) for label, r in recipes.items()},
        "cost": {
            label: cost_document(run_cost(directory / r.name, r)) for label, r in recipes.items()
        },
        "seconds": clock.seconds(),
    }
    write_json(directory / "summary.json", summary)
    return summary


def _sets(run: EvaluationDirectory) -> dict[str, Any]:
    return {"sets": read_evaluation(run.evaluation)["sets"]}


def _prepared(
    kind: WorldKind,
    contenders: Sequence[Contender],
    directory: Path,
    seed: int,
    size: Size,
    clock: StageClock,
    progress: ProgressDisplay,
) -> dict[str, Recipe]:
    """The world and its base model, and with them the recipe of every contender, by label."""
    with clock.stage("world"):
        progress.say("building the world")
        world = kind.build(directory / "world", seed=seed, sizes=size.world)
    base_model, steps = directory / "base_model", size.base_steps or kind.base_steps
    with clock.stage("base_model"), progress.task("base model", steps, "steps") as advance:
        kind.train_base_model(
            world, base_model, seed=seed, steps=steps, on_progress=lambda n: advance(n, "")
        )
    return {
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


def _contenders(methods: Sequence[str], strengths: Mapping[str, float | None]) -> list[Contender]:
    if not methods or len(set(methods)) < len(methods):
        raise SettingsError(f"name at least one method, each once, got {', '.join(methods)!r}")
    return [parse_contender(label, strengths) for label in methods]


def _require_settings(contenders: Sequence[Contender], seed: int, size: Size) -> None:
    """Find a strength that no run can have before a world is built and a base model trained."""
    here, no_data = Path(), {"data": {"train": "train.jsonl"}}
    for contender in contenders:
        try:
            quickstart_recipe(
                contender, no_data, base_model=here, pool=here / "pool", seed=seed, size=size
            )
        except SettingsError as error:
            raise SettingsError(f"{contender.label}: {error}") from error
