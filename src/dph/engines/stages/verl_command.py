"""A recipe as verl commands: Hydra overrides and environment variables."""

import itertools
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from dph.recipe import Recipe
from dph.runs.directory import CHECKPOINTS, PROBLEMS_FILE, RunDirectory

LOG = "log.jsonl"
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+")
_NOT_TEXT = re.compile(r"(?i)true|false|null|nan|inf|[-+]?[0-9.][0-9.e+_-]*")
"""Words that Hydra would not parse as strings."""


def override(key: str, value: Any) -> str:
    r"""``key=value``; a mapping replaces the existing one and may add keys to it.

    >>> override("data.train_batch_size", 4), override("dph.databases", None)
    ('data.train_batch_size=4', 'dph.databases=null')
    >>> override("dph.system_prompt", "It's 5"), override("a", {"eps": 1e-08, "on": [True]})
    ("dph.system_prompt='It\\'s 5'", '++a={eps: 1e-08, on: [true]}')
    """
    return f"{'++' if isinstance(value, Mapping) else ''}{key}={hydra_value(value)}"


def hydra_value(value: Any) -> str:
    """A value in Hydra's grammar; strings are quoted if necessary."""
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
    # To Hydra, backslashes are special only before a quote.
    quoted = re.sub(r"(\\*)'", r"\1\1\\'", text)
    end = re.search(r"\\*$", quoted)
    return f"'{quoted}{end[0] if end else ''}'"


DTYPES = {"float32": "fp32", "bfloat16": "bf16"}
_STATE = ("model", "optimizer", "extra")
_ACTOR, _REF = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
_ROLLOUT, _MODEL = "actor_rollout_ref.rollout", "actor_rollout_ref.model"
_RESET_TOKENS = 256
"""Tokens that ``reset`` may add to a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlRun:
    """A recipe and its run directory, with the facts that verl needs.

    ``model`` is the directory of the initial policy; ``longest_prompt`` is in tokens.
    """

    recipe: Recipe
    directory: Path
    model: Path
    longest_prompt: int

    @property
    def place(self) -> Path:
        """Directory of verl's files: problems as parquet, checkpoints and output."""
        return RunDirectory(self.directory.absolute()).engine("verl")

    @property
    def recipe_file(self) -> Path:
        """The recipe file that `dph run` writes."""
        return RunDirectory(self.directory.absolute()).recipe_file


def presample_overrides(run: VerlRun) -> list[str]:
    """Arguments of ``python -m dph.engines.verl.presample``."""
    settings = run.recipe.presample
    values = {
        **_shared(run),
        "dph.seed": run.recipe.presampling_seed,
        "dph.samples": settings.samples,
        "dph.threshold": settings.threshold,
        "dph.wrong_final": settings.wrong_final,
    }
    return [*itertools.starmap(override, values.items()), *run.recipe.verl.overrides]


def train_overrides(run: VerlRun) -> list[str]:
    """Arguments of ``python -m dph.engines.verl.train``."""
    recipe, train = run.recipe, run.recipe.train
    updates = train.minibatches * train.epochs  # of a rollout, after which verl's schedule moves on
    if train.problems_per_step % train.minibatches:
        raise SettingsError(
            f"train.problems_per_step = {train.problems_per_step} is not divisible by "
            f"train.minibatches = {train.minibatches}: verl splits batches by problem"
        )
    values = {
        **_shared(run),
        "dph.seed": recipe.seed,
        "dph.objective": run.recipe_file,
        "dph.rehearsal_per_step": train.rehearsal_per_step,
        "dph.problems": train.problems,
        f"{_ROLLOUT}.n": train.samples_per_problem,
        f"{_ACTOR}.ppo_mini_batch_size": train.problems_per_step // train.minibatches,
        f"{_ACTOR}.ppo_epochs": train.epochs,
        f"{_ACTOR}.optim.lr": train.learning_rate,
        f"{_ACTOR}.optim.lr_scheduler_type": "constant",
        f"{_ACTOR}.optim.lr_warmup_steps": math.ceil(train.warmup_steps / updates),
        f"{_ACTOR}.optim.betas": train.betas,
        f"{_ACTOR}.optim.override_optimizer_config": {"eps": train.eps},
        f"{_ACTOR}.optim.weight_decay": train.weight_decay,
        f"{_ACTOR}.optim.clip_grad": train.max_grad_norm,
        "trainer.total_training_steps": train.steps,
        "trainer.total_epochs": train.steps,  # enough: every epoch has a step
        "trainer.save_freq": train.checkpoint_every,
        "trainer.max_actor_ckpt_to_keep": train.keep_checkpoints,
        # verl gathers this model in float32; merging its shards later would round to bfloat16.
        f"{_ACTOR}.checkpoint.save_contents": [*_STATE, "hf_model"],
        f"{_ACTOR}.checkpoint.load_contents": _STATE,
    }
    return [*itertools.starmap(override, values.items()), *recipe.verl.overrides]


def environment(run: VerlRun, *, log: Path) -> dict[str, str]:
    """Environment variables to set for verl's processes."""
    address = run.recipe.verl.address
    return {
        "VERL_FILE_LOGGER_PATH": str(log),
        "RAY_USAGE_STATS_ENABLED": "0",
        **({} if address is None else {"RAY_ADDRESS": address}),
    }


def require_cluster(recipe: Recipe) -> None:
    nodes, address = recipe.verl.nodes, recipe.verl.address
    if nodes > 1 and address is None:
        raise SettingsError(
            f"verl.nodes = {nodes} needs a Ray cluster to join: start Ray on every machine (`ray "
            "start --head` on the first, `ray start --address=<first>:6379` on the others) and set "
            "verl.address (--address <first>:6379)"
        )


def _shared(run: VerlRun) -> dict[str, Any]:
    recipe, data, sampling = run.recipe, run.recipe.data, run.recipe.sampling
    problems, multi_turn = run.place / PROBLEMS_FILE, recipe.environment.path is not None
    settings, longest = recipe.model, run.longest_prompt + recipe.answer_tokens
    tokens = max(recipe.train.microbatch_tokens, longest)
    dtype, loop = DTYPES[settings.dtype], "dph_trajectory" if multi_turn else "dph_single_turn"
    precision = {"param_dtype": dtype, "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    return {
        "data.train_files": problems,
        "data.val_files": problems,
        "data.train_batch_size": recipe.train.problems_per_step,
        "data.max_prompt_length": run.longest_prompt + (_RESET_TOKENS if multi_turn else 0),
        "data.max_response_length": recipe.answer_tokens,
        "data.seed": recipe.seed,
        f"{_MODEL}.path": run.model.absolute(),
        f"{_MODEL}.enable_gradient_checkpointing": settings.gradient_checkpointing,
        f"{_MODEL}.override_config": {"attn_implementation": settings.attention},
        f"{_MODEL}.use_liger": settings.kernels == "liger",
        f"{_ACTOR}.strategy": "fsdp2",
        f"{_ACTOR}.fsdp_config.mixed_precision": precision,
        f"{_REF}.strategy": "fsdp2",
        f"{_REF}.fsdp_config.mixed_precision": precision,
        f"{_ACTOR}.shuffle": False,
        f"{_ACTOR}.use_dynamic_bsz": True,
        f"{_ACTOR}.ppo_max_token_len_per_gpu": tokens,
        f"{_ROLLOUT}.log_prob_use_dynamic_bsz": True,
        f"{_ROLLOUT}.log_prob_max_token_len_per_gpu": tokens,
        f"{_REF}.log_prob_use_dynamic_bsz": True,
        f"{_REF}.log_prob_max_token_len_per_gpu": tokens,
        f"{_ROLLOUT}.name": recipe.verl.rollout,
        f"{_ROLLOUT}.dtype": settings.dtype,
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
        "dph.environment": run.recipe_file if multi_turn else None,
        f"{_ROLLOUT}.agent.default_agent_loop": loop,
        # SGLang is the only rollout of verl that takes no seed per request.
        "dph.seed_requests": recipe.verl.rollout != "sglang",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One verl process: its purpose, its arguments, and additions to the environment."""

    what: str
    words: Sequence[str]
    environment: dict[str, str]


def commands(run: VerlRun, *, pool: bool, python: str = sys.executable) -> list[Command]:
    """Commands in order: pre-sampling, if ``pool`` asks for one, then training."""
    search = [
        *map(str, run.recipe.data.modules),
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    modules = {"PYTHONPATH": os.pathsep.join(search)} if search else {}
    shared = {**environment(run, log=run.place / LOG), **modules}
    stages = [("training", "train", train_overrides(run))]
    if pool:
        stages.insert(0, ("pre-sampling", "presample", presample_overrides(run)))
    return [
        Command(
            what=what,
            words=[python, "-P", "-m", f"dph.engines.verl.{module}", *words],
            environment=shared,
        )
        for what, module, words in stages
    ]
