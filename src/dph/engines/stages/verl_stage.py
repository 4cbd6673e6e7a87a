"""The stages in verl: problems as parquet, a pool on the cluster, training."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, only_writer
from dph._base.provenance import install_command
from dph.engines.stages.engine_log import StepLog, step_of_verl
from dph.engines.stages.stage import (
    adopt,
    already_trained,
    following,
    longest_prompt,
    run_command,
)
from dph.errors import DataError, SettingsError, TrainingError
from dph.recipe import Recipe
from dph.recipe.engines import require_engine_can
from dph.runs.directory import CHECKPOINTS, PROBLEMS_FILE, RunDirectory, is_made, note_beginning
from dph.runs.job import RunJob
from dph.runs.presample.manifest import Manifest
from dph.runs.presampling_stage import presample_stage as own_presample_stage
from dph.runs.progress import ProgressDisplay
from dph.runs.train.loop import Trained
from dph.tasks.problems import save_problems
from dph.tasks.verl import ground_truth_of, problems_to_verl

# Values as Hydra's overrides have them.

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+")
_NOT_TEXT = re.compile(r"(?i)true|false|null|nan|inf|[-+]?[0-9.][0-9.e+_-]*")
"""Words that Hydra would read as something else than text."""


def override(key: str, value: Any) -> str:
    r"""``key=value``; a mapping replaces what is there, with keys that need not have been there.

    >>> override("data.train_batch_size", 4), override("dph.databases", None)
    ('data.train_batch_size=4', 'dph.databases=null')
    >>> override("dph.system_prompt", "It's 5"), override("a", {"eps": 1e-08, "on": [True]})
    ("dph.system_prompt='It\\'s 5'", '++a={eps: 1e-08, on: [true]}')
    """
    return f"{'++' if isinstance(value, Mapping) else ''}{key}={hydra_value(value)}"


def hydra_value(value: Any) -> str:
    """A value; texts are quoted where they need it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {hydra_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(hydra_value, value)) + "]"
    text = str(value) if isinstance(value, Path) else value
    if _PLAIN.fullmatch(text) and not _NOT_TEXT.fullmatch(text):
        return str(text)
    # Backslashes count for Hydra only where they stand before a quote.
    quoted = re.sub(r"(\\*)'", r"\1\1\\'", text)
    end = re.search(r"\\*$", quoted)
    return f"'{quoted}{end[0] if end else ''}'"


DTYPES = {"float32": "fp32", "bfloat16": "bf16"}
_STATE = ("model", "optimizer", "extra")
_ACTOR, _REF = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
_ROLLOUT, _MODEL = "actor_rollout_ref.rollout", "actor_rollout_ref.model"
_SAID = 256
"""Tokens that ``reset`` may add to a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlRun:
    """A recipe in its run directory, as far as verl needs to know.

    ``model`` is the directory of the initial policy; ``longest_prompt`` is in tokens; ``chat`` is
    the recipe's, decided.
    """

    recipe: Recipe
    directory: Path
    model: Path
    longest_prompt: int

    @property
    def place(self) -> Path:
        """Verl's files: problems as parquet, its checkpoints and its output."""
        return RunDirectory(self.directory.absolute()).engine("verl")


def presample_overrides(run: VerlRun) -> list[str]:
    """Of ``python -m dph.engines.verl.presample``."""
    settings = run.recipe.presample
    own = {
        **_shared(run),
        "dph.seed": run.recipe.presampling_seed,
        "dph.samples": settings.samples,
        "dph.threshold": settings.threshold,
        "dph.wrong_final": settings.wrong_final,
    }
    return [*_words(own), *run.recipe.verl.overrides]


def train_overrides(run: VerlRun) -> list[str]:
    """Of ``python -m dph.engines.verl.train``."""
    recipe, train = run.recipe, run.recipe.train
    if train.problems_per_step % train.minibatches:
        raise SettingsError(
            f"train.problems_per_step = {train.problems_per_step} does not divide by "
            f"train.minibatches = {train.minibatches}: verl's mini-batches are whole problems"
        )
    own = {
        **_shared(run),
        "dph.seed": recipe.seed,
        "dph.objective": _recipe_file(run),
        "dph.rehearsal_per_step": train.rehearsal_per_step,
        "dph.problems": train.problems,
        f"{_ROLLOUT}.n": train.samples_per_problem,
        f"{_ACTOR}.ppo_mini_batch_size": train.problems_per_step // train.minibatches,
        f"{_ACTOR}.ppo_epochs": train.epochs,
        f"{_ACTOR}.optim.lr": train.learning_rate,
        f"{_ACTOR}.optim.lr_scheduler_type": "constant",
        f"{_ACTOR}.optim.lr_warmup_steps": train.warmup_steps,
        f"{_ACTOR}.optim.betas": train.betas,
        f"{_ACTOR}.optim.override_optimizer_config": {"eps": train.eps},
        f"{_ACTOR}.optim.weight_decay": train.weight_decay,
        f"{_ACTOR}.optim.clip_grad": train.max_grad_norm,
        "trainer.total_training_steps": train.steps,
        "trainer.total_epochs": train.steps,  # an epoch has a step or more: steps end it
        "trainer.save_freq": train.checkpoint_every,
        "trainer.max_actor_ckpt_to_keep": train.keep_checkpoints,
        # Gathered by verl in float32. Its merger of shards, afterwards, rounds to bfloat16.
        f"{_ACTOR}.checkpoint.save_contents": [*_STATE, "hf_model"],
        f"{_ACTOR}.checkpoint.load_contents": _STATE,
    }
    return [*_words(own), *recipe.verl.overrides]


def environment(run: VerlRun, *, log: Path) -> dict[str, str]:
    """Environment of verl's processes, in addition to their overrides."""
    address = run.recipe.verl.address
    return {
        "VERL_FILE_LOGGER_PATH": str(log),
        "RAY_USAGE_STATS_ENABLED": "0",
        **({} if address is None else {"RAY_ADDRESS": address}),
    }


def require_cluster(recipe: Recipe) -> None:
    """Refuse several machines without a cluster of them."""
    nodes, address = recipe.verl.nodes, recipe.verl.address
    if nodes > 1 and address is None:
        raise SettingsError(
            f"verl.nodes = {nodes} needs a Ray cluster to join: start Ray on every machine (`ray "
            "start --head` on the first, `ray start --address=<first>:6379` on the others) and set "
            "verl.address (--address <first>:6379)"
        )


def _shared(run: VerlRun) -> dict[str, Any]:
    """Settings common to pre-sampling and training."""
    recipe, data, sampling = run.recipe, run.recipe.data, run.recipe.sampling
    problems, acts = run.place / PROBLEMS_FILE, recipe.environment.path is not None
    return {
        "data.train_files": problems,
        "data.val_files": problems,
        "data.train_batch_size": recipe.train.problems_per_step,
        "data.max_prompt_length": run.longest_prompt + (_SAID if acts else 0),
        "data.max_response_length": recipe.answer_tokens,
        "data.seed": recipe.seed,
        **_model(run),
        f"{_ROLLOUT}.name": recipe.verl.rollout,
        f"{_ROLLOUT}.temperature": sampling.temperature,
        f"{_ROLLOUT}.top_p": sampling.top_p,
        f"{_ROLLOUT}.gpu_memory_utilization": recipe.vllm.memory,
        f"{_ROLLOUT}.tensor_model_parallel_size": recipe.vllm.gpus,
        f"{_ROLLOUT}.max_model_len": recipe.vllm.context or None,
        f"{_ROLLOUT}.enforce_eager": recipe.vllm.eager,
        "trainer.nnodes": recipe.verl.nodes,
        "trainer.n_gpus_per_node": recipe.verl.gpus,
        "trainer.device": "cpu" if recipe.model.device == "cpu" else "cuda",
        "trainer.default_local_dir": run.place / CHECKPOINTS,
        "trainer.project_name": recipe.track.project,
        "trainer.experiment_name": recipe.name,
        "trainer.logger": ["console", "file"],
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "hydra.run.dir": run.place / "hydra",
        "dph.pool": RunDirectory(run.directory).pool(recipe).absolute(),
        "dph.verifier": data.verifier,
        "dph.verifier_workers": data.verifier_workers,
        "dph.verifier_timeout": data.verifier_timeout,
        "dph.databases": None if data.databases is None else data.databases.absolute(),
        "dph.sql_rule": data.verifier_settings["sql_rule"],
        "dph.chat": data.chat is True,
        "dph.system_prompt": data.system_prompt,
        "dph.environment": _recipe_file(run) if acts else None,
        f"{_ROLLOUT}.agent.default_agent_loop": "dph_trajectory" if acts else "dph_single_turn",
        # Of the rollouts that verl has, SGLang's takes no seed with a request.
        "dph.seed_requests": recipe.verl.rollout != "sglang",
    }


def _recipe_file(run: VerlRun) -> Path:
    return RunDirectory(run.directory.absolute()).recipe_file


def _model(run: VerlRun) -> dict[str, Any]:
    """Weights, precision, and how many tokens go through the model at a time."""
    settings = run.recipe.model
    dtype = DTYPES[settings.dtype]
    precision = {"param_dtype": dtype, "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    longest = run.longest_prompt + run.recipe.answer_tokens
    tokens = max(run.recipe.train.microbatch_tokens, longest)
    of_both = {
        "strategy": "fsdp2",
        "fsdp_config.mixed_precision": precision,
    }
    return {
        f"{_MODEL}.path": run.model.absolute(),
        f"{_MODEL}.enable_gradient_checkpointing": settings.gradient_checkpointing,
        f"{_MODEL}.override_config": {"attn_implementation": settings.attention},
        f"{_MODEL}.use_liger": settings.kernels == "liger",
        **{f"{role}.{key}": value for role in (_ACTOR, _REF) for key, value in of_both.items()},
        f"{_ACTOR}.shuffle": False,
        f"{_ACTOR}.use_dynamic_bsz": True,
        f"{_ACTOR}.ppo_max_token_len_per_gpu": tokens,
        **{
            f"{role}.{key}": value
            for role in (_ROLLOUT, _REF)
            for key, value in (
                ("log_prob_use_dynamic_bsz", True),
                ("log_prob_max_token_len_per_gpu", tokens),
            )
        },
    }


def _words(values: dict[str, Any]) -> list[str]:
    return [override(key, value) for key, value in values.items()]


LOG, LATEST = "log.jsonl", "latest_checkpointed_iteration.txt"
_OURS = "dph.engines.verl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One process of verl: its purpose, its words, and additions to our environment."""

    what: str
    words: Sequence[str]
    environment: dict[str, str]


def check(plan: RunJob) -> None:
    """Refuse what verl cannot do, or its absence, before anything is written."""
    require_possible(plan)
    if not is_installed():
        raise SettingsError(
            f'train.engine = "verl" needs verl in this environment: {install_command("verl")}'
        )


def is_installed() -> bool:
    """Whether verl is in this environment."""
    return find_spec("verl") is not None


def require_possible(plan: RunJob) -> None:
    """Refuse what verl cannot do, wherever it is installed."""
    recipe, found = plan.recipe, len(plan.problems)
    require_engine_can(recipe)
    require_cluster(recipe)
    _require_whole_rewards(recipe)
    train_overrides(run_of(plan))
    if found < recipe.train.problems_per_step:
        raise DataError(
            f"train.problems_per_step = {recipe.train.problems_per_step}, and {recipe.data.train} "
            f"has {found} problems: verl drops the rest of an epoch that does not fill a rollout"
        )


def _require_whole_rewards(recipe: Recipe) -> None:
    """Refuse what verl's reward worker does with answers of one turn alone."""
    if recipe.environment.path is not None and recipe.objective.overlong_buffer:
        raise SettingsError(
            "[environment] with objective.overlong_buffer is not possible in verl: use "
            "train.engine = 'own'"
        )


def presample_stage(
    plan: RunJob, progress: ProgressDisplay, *, may_split_again: bool = True
) -> Manifest:
    """Make the pool on verl's engines unless there is one, and check it as our own stage does."""
    if pool_is_missing(plan):
        run = run_of(plan)
        _write_problems(plan, run)
        (command, *_) = commands(run, pool=True)
        total = len(plan.problems)
        with progress.task("pre-sampling in verl", total, "problems") as advance:
            _run(command, run.place / "presample.log")
            advance(total, "")
    return own_presample_stage(plan, progress, may_split_again=may_split_again)


def train_stage(plan: RunJob, progress: ProgressDisplay) -> Trained:
    """Train in verl, or continue from verl's newest checkpoint."""
    recipe, directory = plan.recipe, plan.directory.path
    steps, run = recipe.train.steps, run_of(plan)
    plan.policies.release()  # verl's own processes load it
    trained = already_trained(plan, place=run.place, begun=newest_step(run))
    if trained is not None:
        return trained
    (train,) = commands(run, pool=False)
    with only_writer(directory):
        note_beginning(recipe, directory, done=newest_step(run))
        _write_problems(plan, run)
        if newest_step(run) < steps:
            with following(
                plan,
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
        return adopt(plan, model, step=steps)


def run_of(plan: RunJob) -> VerlRun:
    """The recipe with verl's settings of its model and prompts."""
    return VerlRun(
        recipe=plan.recipe,
        directory=plan.directory.path,
        model=plan.initial,
        longest_prompt=longest_prompt(plan),
    )


def pool_is_missing(plan: RunJob) -> bool:
    """Whether verl has to make the pool. A pool of trajectories is made by our own engine."""
    acts = plan.recipe.environment.path is not None
    return plan.needs_pool and not acts and not is_made(plan.pool)


def commands(run: VerlRun, *, pool: bool, python: str = sys.executable) -> list[Command]:
    """Commands in order: pre-sampling if a ``pool`` is to be made, and training."""
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


def _write_problems(plan: RunJob, run: VerlRun) -> None:
    """The training problems as verl's parquet, from whatever file and columns they came."""
    plain = make_directory(run.place) / "problems.jsonl"
    save_problems(plain, [plan.prompts.asked(problem) for problem in plan.problems])
    acts = plan.recipe.environment.path is not None
    field = ground_truth_of(plan.problems[0], acts=acts)
    problems_to_verl(plain, run.place / PROBLEMS_FILE, ground_truth=field)
