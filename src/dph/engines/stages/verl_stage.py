"""The stages in verl: problems as parquet, a pool on the cluster, training."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dph._base.files import make_directory, only_writer
from dph.engines.stages.stage import adopt
from dph.engines.stages.child import run_command
from dph.engines.stages.engine_log import StepLog
from dph.engines.stages.stage import longest_prompt
from dph.engines.stages.stage import (
    already_trained,
    following,
    require_a_rollout,
    require_installed,
)
from dph.engines.stages.engine_log import step_of_verl
from dph.engines.stages.verl_overrides import (
    CHECKPOINTS,
    PROBLEMS,
    VerlRun,
    environment,
    presample_overrides,
    require_cluster,
    train_overrides,
)
from dph.errors import TrainingError
from dph.recipe.engine_refusals import require_engine_can
from dph.runs.beginning import note_beginning
from dph.runs.layout import pool_directory
from dph.runs.pool_need import needs_pool
from dph.runs.presample.manifest import Manifest
from dph.runs.presampling_stage import presample_stage as own_presample_stage
from dph.runs.progress import ProgressDisplay
from dph.runs.train.actors import Trained
from dph.runs.training_digest import training_digest
from dph.runs.workbench import Workbench
from dph.tasks.problems import save_problems
from dph.tasks.verl.files import problems_to_verl

LOG, LATEST = "log.jsonl", "latest_checkpointed_iteration.txt"
_OURS = "dph.engines.verl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process of verl: what it is for, its words, and what its environment says beside ours."""

    what: str
    words: Sequence[str]
    environment: dict[str, str]


def check(bench: Workbench) -> None:
    """Refuse what verl cannot do, or its absence, before anything is written.

    Raises:
        SettingsError: verl is not installed, or cannot have a setting.
        DataError: there are fewer problems than a rollout has.
    """
    require_possible(bench)
    require_installed(bench.recipe)


def require_possible(bench: Workbench) -> None:
    """Refuse what verl cannot do, wherever it is installed.

    Raises:
        SettingsError: verl cannot have a setting.
        DataError: there are fewer problems than a rollout has.
    """
    recipe = bench.recipe
    require_engine_can(recipe)
    require_cluster(recipe)
    train_overrides(run_of(bench, Path()))
    require_a_rollout(bench, why="verl drops the rest of an epoch that fills no rollout")


def presample_stage(
    bench: Workbench, directory: Path, progress: ProgressDisplay, *, may_split_again: bool = True
) -> Manifest:
    """Make the pool on verl's engines unless there is one, and check it as our own stage does.

    Raises:
        PoolError: there is a pool that was made from something else.
        TrainingError: verl failed.
    """
    if pool_is_missing(bench, directory):
        run = run_of(bench, directory)
        _write_problems(bench, run)
        (command, *_) = commands(run, pool=True)
        total = len(bench.problems)
        with progress.task("pre-sampling in verl", total, "problems") as advance:
            _run(command, run.place / "presample.log")
            advance(total, "")
    return own_presample_stage(bench, directory, progress, may_split_again=may_split_again)


def train_stage(
    bench: Workbench, directory: Path, progress: ProgressDisplay, *, digest: str | None = None
) -> Trained:
    """Train in verl, or go on from verl's newest checkpoint.

    Raises:
        CheckpointError: the directory holds a run with other settings.
        TrainingError: verl failed.
    """
    recipe, digest = bench.recipe, digest or training_digest(bench, directory)
    steps, run = recipe.train.steps, run_of(bench, directory)
    trained = already_trained(bench, directory, place=run.place, digest=digest)
    if trained is not None:
        return trained
    (train,) = commands(run, pool=False)
    with only_writer(directory):
        note_beginning(recipe, directory, done=newest_step(run))
        _write_problems(bench, run)
        if newest_step(run) < steps:
            with following(
                bench,
                directory,
                progress,
                log=run.place / LOG,
                done=newest_step(run),
                convert=lambda logged: step_of_verl(logged, recipe),
            ) as log:
                _run(train, run.place / "train.log", log)
        if newest_step(run) != steps:
            raise TrainingError(
                f"verl ended after step {newest_step(run)} of {steps}; its log: "
                f"{run.place / 'train.log'}"
            )
        model = run.place / CHECKPOINTS / f"global_step_{steps}" / "actor" / "huggingface"
        return adopt(bench, directory, model, step=steps, digest=digest)


def run_of(bench: Workbench, directory: Path) -> VerlRun:
    """The recipe with what verl has to be told of its model and prompts."""
    return VerlRun(
        recipe=bench.recipe,
        directory=directory,
        model=bench.initial,
        longest_prompt=longest_prompt(bench),
    )


def pool_is_missing(bench: Workbench, directory: Path) -> bool:
    """Whether the recipe reads a pool that has not been made."""
    place = pool_directory(bench.recipe, directory)
    return needs_pool(bench.recipe) and not (place / "manifest.json").exists()


def commands(run: VerlRun, *, pool: bool, python: str = sys.executable) -> list[Command]:
    """What is run, in order: pre-sampling where a ``pool`` is to be made, and training."""
    module = [python, "-P", "-m"]
    search = [
        *map(str, run.recipe.data.modules),
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    modules = {"PYTHONPATH": os.pathsep.join(search)} if search else {}
    shared = {**environment(run, log=run.place / LOG), **modules}
    found = [
        Command(
            what="training",
            words=[*module, f"{_OURS}.train", *train_overrides(run)],
            environment=shared,
        ),
    ]
    if pool:
        words = [*module, f"{_OURS}.presample", *presample_overrides(run)]
        found.insert(0, Command(what="pre-sampling", words=words, environment=shared))
    return found


def newest_step(run: VerlRun) -> int:
    """The step of verl's newest checkpoint; 0 where there is none."""
    path = run.place / CHECKPOINTS / LATEST
    said = path.read_text(encoding="utf-8").strip() if path.exists() else "0"
    return int(said) if said.isdecimal() else 0


def _run(command: Command, log: Path, steps: StepLog | None = None) -> None:
    watch = steps.follow if steps is not None else lambda: None
    run_command(command.words, environment=command.environment, log=log, watch=watch)


def _write_problems(bench: Workbench, run: VerlRun) -> None:
    """The training problems as verl's parquet, from whatever file and columns they came."""
    plain = make_directory(run.place) / "problems.jsonl"
    save_problems(plain, [bench.asked(problem) for problem in bench.problems])
    problems_to_verl(plain, run.place / PROBLEMS)
