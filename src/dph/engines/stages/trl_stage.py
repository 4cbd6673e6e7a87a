"""The training stage in TRL: ``DPHTrainer`` in a process of its own, or several by accelerate."""

import os
import shutil
import sys
from pathlib import Path

from dph._base.files import make_directory, only_writer
from dph._base.import_path import search_path
from dph.engines.stages.stage import adopt
from dph.engines.stages.child import run_command
from dph.engines.stages.stage import longest_prompt
from dph.engines.stages.stage import (
    already_trained,
    following,
    require_a_rollout,
    require_installed,
)
from dph.engines.stages.trl_arguments import (
    ENGINE_DIRECTORY,
    trl_arguments,
    updates_per_step,
)
from dph.engines.stages.engine_log import step_of_trl
from dph.recipe import Recipe
from dph.recipe.engine_refusals import require_engine_can
from dph.runs.beginning import note_beginning
from dph.runs.progress import ProgressDisplay
from dph.runs.train.actors import Trained
from dph.runs.training_digest import training_digest
from dph.runs.workbench import Workbench

MODULE = "dph.engines.trl.run_recipe"
LOG, PRINTED, MODEL = "log.jsonl", "printed.log", "model"
"""In the engine's directory: what TRL logged, what its process printed, the weights at the end."""


def check(bench: Workbench) -> None:
    """Refuse what TRL cannot do, or its absence, before anything is written.

    Raises:
        SettingsError: TRL is not installed, or cannot have a setting.
        DataError: there are fewer problems than a rollout has.
    """
    require_possible(bench)
    require_installed(bench.recipe)


def require_possible(bench: Workbench) -> None:
    """Refuse what TRL cannot do, wherever it is installed.

    Raises:
        SettingsError: TRL cannot have a setting.
        DataError: there are fewer problems than a rollout has.
    """
    recipe = bench.recipe
    require_engine_can(recipe)
    trl_arguments(recipe, Path(), longest_prompt=longest_prompt(bench), cuda=False)
    require_a_rollout(bench, why="TRL draws no problem twice for a rollout")


def train_stage(
    bench: Workbench, directory: Path, progress: ProgressDisplay, *, digest: str | None = None
) -> Trained:
    """Train in TRL, or go on from TRL's newest checkpoint.

    Raises:
        CheckpointError: the directory holds a run with other settings.
        TrainingError: TRL's process failed.
    """
    recipe, digest = bench.recipe, digest or training_digest(bench, directory)
    steps, place = recipe.train.steps, directory / ENGINE_DIRECTORY
    trained = already_trained(bench, directory, place=place, digest=digest)
    if trained is not None:
        return trained
    updates = updates_per_step(recipe)
    done = newest_step(place) // updates
    with only_writer(directory):
        note_beginning(recipe, directory, done=done)
        shutil.rmtree(place / MODEL, ignore_errors=True)
        with following(
            bench,
            directory,
            progress,
            log=place / LOG,
            done=done,
            convert=lambda logged: step_of_trl(logged, recipe),
            updates=updates,
        ) as log:
            run_command(
                trl_command(recipe, directory),
                environment=trl_environment(recipe),
                log=place / PRINTED,
                watch=log.follow,
            )
        trained = adopt(bench, directory, place / MODEL, step=steps, digest=digest)
        shutil.rmtree(place / MODEL)
        return trained


def trl_command(recipe: Recipe, directory: Path, *, python: str = sys.executable) -> list[str]:
    """The command that trains the recipe which lies in ``directory``."""
    what = [MODULE, str(directory.absolute())]
    if recipe.trl.processes == 1:
        return [python, "-P", "-m", *what]
    # --multi_gpu is how accelerate says "several processes"; on CPUs they talk by gloo.
    launch = ["--multi_gpu", "--num_machines", "1", "--num_processes", str(recipe.trl.processes)]
    more = ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    return [
        *(python, "-m", "accelerate.commands.launch", *launch, *more),
        *("--module", *what),
    ]


def trl_environment(recipe: Recipe) -> dict[str, str]:
    """What TRL's processes need: the user's own modules, and no telemetry."""
    search = [*map(str, recipe.data.modules), search_path()]
    return {"PYTHONPATH": os.pathsep.join(search), "HF_HUB_DISABLE_TELEMETRY": "1"}


def newest_step(place: Path) -> int:
    """The optimizer step of TRL's newest checkpoint in ``place``; 0 where there is none."""
    numbers = [path.name.rpartition("-")[2] for path in place.glob("checkpoint-*")]
    make_directory(place)
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
