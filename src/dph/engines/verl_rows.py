"""Every setting of a recipe in verl: keys of its configuration."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from dph.recipe.data import SHOTS
from dph.recipe.engines import Row
from dph.recipe.schema import EnvironmentSettings
from dph.recipe.terms import ADVANTAGES, READ_IN_OWN_LOOP
from dph.tasks.verifiers.table import verifier_settings

_ACTOR, _ROLLOUT, _MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
_OBJECTIVE, _FILES = "dph.objective", "data.train_files"
_OWN = "`--engine own` does"
_SAMPLED = "verl gives its loss the log-probs of sampled tokens alone; `--engine own` has"
_WORKERS = "verl's reward workers grade with the default"
_EVALUATION = "the evaluation stage"
_NOT_KEPT = f"the engine's answers of training are not kept; {_OWN}"
_NO_ADAPTERS = f"the engine is given whole weights; {_OWN} train adapters"


def to(
    key: str,
    *,
    only: tuple[Any, ...] | None = None,
    never: tuple[Any, ...] = (),
    why: str = "",
) -> Row:
    """A setting that becomes the engine's ``key``."""
    return Row(key=key, only=only, never=never, why=why)


def ours(where: str, *, only: tuple[Any, ...] | None = None, why: str = "") -> Row:
    """A setting that this package reads in ``where``."""
    return Row(key=where, only=only, why=why)


def under(key: str) -> Row:
    """A setting that matters only where ``key``, which has its own row, switches it on."""
    return Row(key=f"with {key}")


def _advantage_rows() -> dict[str, Row]:
    """The rows of ``[objective.advantage]``: verl tells of new samples alone.

    Advantages that read more are refused, and so their parameters never matter.
    """
    chosen = "objective.advantage.kind"
    refused = [name for name, term in ADVANTAGES.items() if term.reads & READ_IN_OWN_LOOP.keys()]
    taken = _parameters_of(name for name in ADVANTAGES if name not in refused)
    why = (
        f"it reads the initial policy's log-probs of new samples, which verl's rows do not say; "
        f"{_OWN}"
    )
    return {
        chosen: to(_OBJECTIVE, never=tuple(refused), why=why),
        **{
            f"objective.advantage.{name}": to(_OBJECTIVE) if name in taken else under(chosen)
            for name in _parameters_of(ADVANTAGES)
        },
    }


def _parameters_of(advantages: Iterable[str]) -> list[str]:
    found = (name for one in advantages for name in ADVANTAGES[one].parameters.model_fields)
    return list(dict.fromkeys(found))


VERL_ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "name": ours("the run's directory"),
        "method": ours("the recipe's own expansion"),
        "notes": ours("recipe.toml"),
        "model.weights": ours(
            "loading",
            only=("float32",),
            why=f"the engine trains float32 weights; {_OWN} train bfloat16",
        ),
        "model.adapter.kind": ours("loading", only=(), why=_NO_ADAPTERS),
        **{
            f"model.adapter.{name}": under("model.adapter.kind")
            for name in ("rank", "alpha", "targets", "init")
        },
        "model.threads": ours("the stages of this process"),
        **{
            f"data.sets.*.{name}": ours(_EVALUATION)
            for name in ("path", "columns", "verifier", "styles")
        },
        "data.verifier_crash_limit": ours(
            "pre-sampling and evaluation",
            only=(0.5, 1.0),
            why=f"a crash while it trains removes one answer and does not end the run; {_OWN} "
            f"count them",
        ),
        "data.styles": ours(_EVALUATION),
        **{f"sampling.{name}": ours(_EVALUATION) for name in ("max_rows", "cache_tokens")},
        "self_consistency.problems_per_step": ours(
            "the objective",
            only=(0,),
            why=f"it learns from labelled problems; {_OWN} learn without",
        ),
        **{
            f"self_consistency.{name}": under("self_consistency.problems_per_step")
            for name in ("file", "only", "novel", "allow_overlap", "agreement")
        },
        **{
            f"environment.{name}": under("environment.path")
            for name in EnvironmentSettings.model_fields
            if name != "path"
        },
        "train.engine": ours("the choice of the engine"),
        "train.shared_prompts": ours(
            "training", only=("auto",), why=f"it computes rows in its own way; {_OWN} share prompts"
        ),
        "train.keep_samples": ours("training", only=(4, "none"), why=_NOT_KEPT),
        "train.keep_samples_mb": under("train.keep_samples"),
        **{
            f"evaluate.{name}": ours(_EVALUATION)
            for name in ("samples", "k", "temperature", "top_p", "max_tokens", "retention_k")
        },
        **{f"evaluate.{name}": ours(_EVALUATION) for name in ("seed", "token_details")},
        "evaluate.every": ours(
            "training",
            only=(0,),
            why=f"this package evaluates before and after it; {_OWN} evaluate in between too",
        ),
        "evaluate.keep_best": under("evaluate.every"),
        "evaluate.result": under("evaluate.every"),
        **{
            f"evaluate.during.{name}": under("evaluate.every")
            for name in ("samples", "k", "sets", "problems", "greedy", "compared")
        },
        "track.to": ours("metrics.jsonl and the files next to it"),
        "track.project": ours("metrics.jsonl and the files next to it"),
        "track.answers": ours(_EVALUATION),
        "environment.path": to("dph.environment"),
        "seed": to("dph.seed"),
        "model.path": to(f"{_MODEL}.path"),
        "model.revision": to(f"{_MODEL}.path"),
        "model.device": to("trainer.device"),
        "model.dtype": to(f"{_ACTOR}.fsdp_config.mixed_precision.param_dtype"),
        "model.attention": to(f"{_MODEL}.override_config.attn_implementation"),
        "model.kernels": to(f"{_MODEL}.use_liger"),
        "model.gradient_checkpointing": to(f"{_MODEL}.enable_gradient_checkpointing"),
        "data.train": to(_FILES),
        "data.columns": to(_FILES),
        **{f"data.shots.{name}": to(_FILES) for name in SHOTS},
        "data.verifier": to(
            "dph.verifier",
            never=("math_qwen",),
            why="it reads LaTeX by another antlr4 than verl's Hydra needs; use 'math'",
        ),
        "data.modules": to("PYTHONPATH"),
        "data.verifier_workers": to("dph.verifier_workers"),
        "data.verifier_timeout": to("dph.verifier_timeout"),
        "data.databases": to("dph.databases"),
        **{
            f"data.{key}": ours(
                "evaluation", only=(setting.default,), why=f"{_WORKERS}; {_OWN} not"
            )
            for key, setting in verifier_settings().items()
        },
        "data.sql_rule": to("dph.sql_rule"),
        "data.chat": to("dph.chat"),
        "data.template": ours(
            "evaluation",
            only=(),
            why="verl's workers load the saved tokenizer; save the chat template with these "
            "values in it",
        ),
        "data.system_prompt": to("dph.system_prompt"),
        "sampling.engine": ours("the evaluation stage"),
        "sampling.temperature": to(f"{_ROLLOUT}.temperature"),
        "sampling.top_p": to(f"{_ROLLOUT}.top_p"),
        "sampling.max_tokens": to("data.max_response_length"),
        "sampling.stop": ours(
            "the evaluation stage",
            only=([],),
            why=f"verl stops at the model's own end tokens; {_OWN} take more",
        ),
        "vllm.memory": to(f"{_ROLLOUT}.gpu_memory_utilization"),
        "vllm.gpus": to(f"{_ROLLOUT}.tensor_model_parallel_size"),
        "vllm.context": to(f"{_ROLLOUT}.max_model_len"),
        "vllm.eager": to(f"{_ROLLOUT}.enforce_eager"),
        "presample.samples": to("dph.samples"),
        "presample.threshold": to("dph.threshold"),
        "presample.wrong_final": to("dph.wrong_final"),
        "presample.keep": ours(
            "pre-sampling",
            only=(1,),
            why=f"verl's pool has one answer of a problem; {_OWN} keep more",
        ),
        "presample.seed": to("dph.seed"),
        "presample.pool": to("dph.pool"),
        **_advantage_rows(),
        **{
            f"objective.surrogate.{name}": to(_OBJECTIVE)
            for name in ("kind", "clip_low", "clip_high")
        },
        "objective.penalties.*.kind": to(
            _OBJECTIVE,
            never=("entropy", "exact_reverse_kl", "exact_forward_kl"),
            why=_SAMPLED,
        ),
        **{f"objective.penalties.*.{name}": to(_OBJECTIVE) for name in ("weight", "estimator")},
        **{
            f"objective.anchors.*.{name}": to(_OBJECTIVE)
            for name in (
                *("samples", "divergence", "weight", "per_step", "whole_prompts"),
                *("whole_schemas", "tokens_per_step", "form", "alpha"),
            )
        },
        **{f"objective.{name}": to(_OBJECTIVE) for name in ("reduction", "dynamic_sampling")},
        "objective.max_refills": ours(
            "training",
            only=(10,),
            why=f"verl's filter_groups draws until a step is full; {_OWN} count its refills",
        ),
        "objective.overlong_buffer": to(_OBJECTIVE),
        "objective.overlong_penalty": to(_OBJECTIVE),
        "objective.overlong_filter": to(
            _OBJECTIVE,
            only=(False,),
            why=f"verl counts answers that were cut off in its loss; {_OWN} leave them out",
        ),
        "train.problems": to("dph.problems"),
        "train.steps": to("trainer.total_training_steps"),
        "train.problems_per_step": to(
            "data.train_batch_size",
            never=(0,),
            why=f"a step of verl begins with new answers; {_OWN} train on stored ones alone",
        ),
        "train.samples_per_problem": to(f"{_ROLLOUT}.n"),
        "train.rehearsal_per_step": to("dph.rehearsal_per_step"),
        "train.minibatches": to(f"{_ACTOR}.ppo_mini_batch_size"),
        "train.epochs": to(f"{_ACTOR}.ppo_epochs"),
        "train.learning_rate": to(f"{_ACTOR}.optim.lr"),
        "train.final_rate": to(
            f"{_ACTOR}.optim.lr_scheduler_type",
            only=(1.0,),
            why=f"verl's learning rate is constant or a cosine; {_OWN} let it fall in a line",
        ),
        "train.warmup_steps": to(f"{_ACTOR}.optim.lr_warmup_steps"),
        "train.betas": to(f"{_ACTOR}.optim.betas"),
        "train.eps": to(f"{_ACTOR}.optim.override_optimizer_config"),
        "train.weight_decay": to(f"{_ACTOR}.optim.weight_decay"),
        "train.max_grad_norm": to(f"{_ACTOR}.optim.clip_grad"),
        "train.microbatch_tokens": to(f"{_ACTOR}.ppo_max_token_len_per_gpu"),
        "train.old_logprobs": to(
            _OBJECTIVE,
            only=("auto", "recompute"),
            why="verl computes old log-probs by one more forward; `--engine own` takes the "
            "sampler's",
        ),
        "train.checkpoint_every": to("trainer.save_freq"),
        "train.keep_checkpoints": to("trainer.max_actor_ckpt_to_keep"),
        "verl.nodes": to("trainer.nnodes"),
        "verl.gpus": to("trainer.n_gpus_per_node"),
        "verl.address": to("RAY_ADDRESS"),
        "verl.rollout": to(f"{_ROLLOUT}.name"),
        "verl.overrides": to("the end of the command"),
    }
)
