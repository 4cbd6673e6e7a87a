"""The training stage in TRL: ``DPHTrainer`` in a separate process, or several by accelerate."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, only_writer
from dph._base.import_path import search_path
from dph.engines.stages.engine_log import step_of_trl
from dph.engines.stages.stage import (
    adopt,
    already_trained,
    following,
    longest_prompt,
    run_command,
    stores_read,
)
from dph.errors import SettingsError
from dph.recipe import Recipe
from dph.runs.directory import RunDirectory, note_beginning
from dph.runs.plan import RunPlan
from dph.runs.progress import ProgressDisplay
from dph.runs.train.preparation import Trained

# A recipe as the fields of ``DPHConfig``: plain arithmetic, without TRL.
#
# A step of a recipe is a rollout; TRL counts optimizer steps, ``minibatches x epochs`` of them to
# a rollout. Its rows are dealt out to processes, and each process's to micro-steps.

ENGINE = "trl"
"""Under the run's directory: TRL's own checkpoints, its log, and what its process printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """Division of a rollout in TRL: rows of a micro-step in a process, and a step's micro-steps."""

    rows: int
    micro_steps: int


def trl_arguments(
    recipe: Recipe, directory: Path, *, longest_prompt: int, cuda: bool
) -> dict[str, Any]:
    """The fields of ``DPHConfig`` that train ``recipe`` in the run ``directory``.

    ``longest_prompt`` is in tokens. What TRL does not take as a field goes to the trainer beside
    them: model, data, rewards, optimizer and schedule. Those are this package's own.

    Raises:
        SettingsError: rows do not divide by processes and mini-batches, or trajectories that were
            cut off would be left out of the loss.
    """
    train, sampling = recipe.train, recipe.sampling
    if recipe.environment.path is not None and recipe.objective.overlong_filter:
        raise SettingsError(
            "objective.overlong_filter = true is not possible with [environment] in TRL, which "
            "sees no trajectory that ran out of turns: leave it out, or use train.engine = 'own'"
        )
    batches = batches_of(recipe, longest_prompt=longest_prompt)
    updates = updates_per_step(recipe)
    return {
        "output_dir": str(RunDirectory(directory).engine(ENGINE)),
        "seed": recipe.seed,
        "use_cpu": not cuda,
        "bf16": recipe.model.dtype == "bfloat16",
        "activation_checkpointing": recipe.model.gradient_checkpointing,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_completion_length": recipe.answer_tokens,
        "num_generations": train.samples_per_problem,
        "per_device_train_batch_size": batches.rows,
        "gradient_accumulation_steps": batches.micro_steps,
        "steps_per_generation": train.minibatches * batches.micro_steps,
        "num_iterations": train.epochs,
        "max_steps": train.steps * updates,
        "learning_rate": train.learning_rate,
        "max_grad_norm": train.max_grad_norm,
        "save_strategy": "steps",
        "save_steps": train.checkpoint_every * updates,
        "save_total_limit": train.keep_checkpoints,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        **_vllm(recipe),
        **_objective(recipe, directory),
        **({} if cuda or recipe.trl.processes == 1 else {"ddp_backend": "gloo"}),
    }


def updates_per_step(recipe: Recipe) -> int:
    """Optimizer steps that follow a rollout."""
    return recipe.train.minibatches * recipe.train.epochs


def batches_of(recipe: Recipe, *, longest_prompt: int) -> Batches:
    """The largest micro-steps whose rows, padded to the longest, fit ``train.microbatch_tokens``.

    Raises:
        SettingsError: rows do not divide by processes and mini-batches.
    """
    train, processes = recipe.train, recipe.trl.processes
    rows = train.problems_per_step * train.samples_per_problem
    if rows % (train.minibatches * processes):
        raise SettingsError(
            f"train.problems_per_step x train.samples_per_problem = {rows} rows do not divide by "
            f"train.minibatches = {train.minibatches} x trl.processes = {processes}, which TRL "
            "needs"
        )
    mine = rows // (train.minibatches * processes)
    fitting = train.microbatch_tokens // (longest_prompt + recipe.answer_tokens)
    micro_steps = next(
        n for n in range(1, mine + 1) if mine % n == 0 and mine // n <= max(1, fitting)
    )
    return Batches(rows=mine // micro_steps, micro_steps=micro_steps)


def _objective(recipe: Recipe, directory: Path) -> dict[str, Any]:
    table = recipe.objective.model_dump(mode="json", exclude_none=True)
    for name, anchor in table["anchors"].items():
        if "per_step" in anchor:
            key = f"objective.anchors.{name}.per_step"
            anchor["per_step"] = _of_a_minibatch(anchor["per_step"], recipe, key)
        if "tokens_per_step" in anchor:
            tokens = anchor["tokens_per_step"] // recipe.train.minibatches
            anchor["tokens_per_step"] = max(1, tokens)
    objective, wanted = recipe.objective, recipe.train.rehearsal_per_step
    shared = any(a.per_step is None for a in objective.active_anchors.values())
    rehearsal = _of_a_minibatch(wanted, recipe, "train.rehearsal_per_step") if shared else wanted
    return {
        "objective": table,
        "pool": str(RunDirectory(directory).pool(recipe)) if objective.rehearses_pool else "",
        "rehearsal_per_step": rehearsal,
        "stores": stores_read(recipe, directory),
    }


def _of_a_minibatch(rows: int, recipe: Recipe, key: str) -> int:
    """Stored answers of an optimizer step, of ``rows`` of a rollout."""
    minibatches = recipe.train.minibatches
    if rows % minibatches:
        raise SettingsError(
            f"{key} = {rows} does not divide by train.minibatches = {minibatches}: TRL draws "
            "stored answers for each optimizer step"
        )
    return rows // minibatches


def _vllm(recipe: Recipe) -> dict[str, Any]:
    if recipe.sampling.engine != "vllm":
        return {}
    if recipe.sampling.stop:
        raise SettingsError(
            f"sampling.stop = {list(recipe.sampling.stop)} is not possible with sampling.engine = "
            '"vllm" in TRL, which gives vLLM only the model\'s own end tokens: leave it out, or '
            'draw with sampling.engine = "torch"'
        )
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": recipe.vllm.memory,
        "vllm_tensor_parallel_size": recipe.vllm.gpus,
        "vllm_max_model_length": recipe.vllm.context or None,
    }


MODULE = "dph.engines.trl.run_recipe"
LOG, PRINTED, MODEL = "log.jsonl", "printed.log", "model"
"""In the engine's directory: what TRL logged, what its process printed, the weights at the end."""


def arguments_of(plan: RunPlan) -> dict[str, Any]:
    """The fields of ``DPHConfig`` of a run that need not have a directory, on a CPU.

    Raises:
        SettingsError: TRL cannot have a setting.
    """
    return trl_arguments(plan.recipe, Path(), longest_prompt=longest_prompt(plan), cuda=False)


def train_stage(plan: RunPlan, progress: ProgressDisplay) -> Trained:
    """Train in TRL, or continue from TRL's newest checkpoint.

    Raises:
        CheckpointError: the directory holds a run with other settings.
        TrainingError: TRL's process failed.
    """
    recipe, directory = plan.recipe, plan.directory.path
    steps, place = recipe.train.steps, plan.directory.engine(ENGINE)
    trained = already_trained(plan, place=place, begun=newest_step(place))
    if trained is not None:
        return trained
    updates = updates_per_step(recipe)
    done = newest_step(place) // updates
    with only_writer(directory):
        note_beginning(recipe, directory, done=done)
        shutil.rmtree(place / MODEL, ignore_errors=True)
        with following(
            plan,
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
        trained = adopt(plan, place / MODEL, step=steps)
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
    """Environment of TRL's processes: the user's own modules, no telemetry, no warnings."""
    search = [*map(str, recipe.data.modules), search_path()]
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    return {"PYTHONPATH": os.pathsep.join(search), **quiet}


def newest_step(place: Path) -> int:
    """The optimizer step of TRL's newest whole checkpoint in ``place``; 0 where there is none.

    Its state is written last: a checkpoint without it was cut off by a kill.
    """
    whole = (path.parent for path in place.glob("checkpoint-*/trainer_state.json"))
    numbers = [path.name.rpartition("-")[2] for path in whole]
    make_directory(place)
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
