"""Every setting of a recipe in verl: part of its commands, read by this package, or refused.

A setting that stands nowhere here fails a test, so that none is ignored in silence.
"""

from collections.abc import Mapping
from types import MappingProxyType

from dph.recipe.data import SHOTS
from dph.recipe.engines import Row
from dph.recipe.schema import EnvironmentSettings
from dph.recipe.terms import ADVANTAGES, READ_IN_OWN_LOOP
from dph.tasks.verifiers.table import verifier_settings

_OWN = "`--engine own` does"
_SAMPLED = "verl gives its loss only the log-probs of sampled tokens; `--engine own` has"

IN_COMMANDS = (
    *("name", "seed", "environment.path", "verl.overrides"),
    *(f"verl.{name}" for name in ("nodes", "gpus", "address", "rollout")),
    *("model.path", "model.revision", "model.device", "model.dtype", "model.attention"),
    *("model.kernels", "model.gradient_checkpointing"),
    *("data.verifier_workers", "data.verifier_timeout", "data.databases", "data.sql_rule"),
    *("data.modules", "data.chat", "data.system_prompt"),
    *(f"sampling.{name}" for name in ("temperature", "top_p", "max_tokens")),
    *(f"vllm.{name}" for name in ("memory", "gpus", "context", "eager")),
    *(f"presample.{name}" for name in ("samples", "threshold", "wrong_final", "seed", "pool")),
    *("train.problems", "train.steps", "train.samples_per_problem", "train.rehearsal_per_step"),
    *("train.minibatches", "train.epochs", "train.learning_rate", "train.warmup_steps"),
    *("train.betas", "train.eps", "train.weight_decay", "train.max_grad_norm"),
    *("train.microbatch_tokens", "train.checkpoint_every", "train.keep_checkpoints"),
    "track.project",
)
"""Settings whose values change verl's commands or their environment."""

_READ_HERE = (
    *("method", "notes", "model.threads", "train.engine"),
    *("data.train", "data.columns", *(f"data.shots.{name}" for name in SHOTS), "data.styles"),
    *(f"data.sets.*.{name}" for name in ("path", "columns", "verifier", "styles")),
    *("sampling.engine", "sampling.max_rows", "sampling.cache_tokens"),
    *(f"evaluate.{name}" for name in ("samples", "k", "temperature", "top_p", "max_tokens")),
    *("evaluate.retention_k", "evaluate.seed", "evaluate.token_details"),
    *("track.to", "track.answers"),
    *(f"objective.surrogate.{name}" for name in ("kind", "clip_low", "clip_high")),
    *("objective.penalties.*.weight", "objective.penalties.*.estimator"),
    *(
        f"objective.anchors.*.{name}"
        for name in (
            *("samples", "divergence", "weight", "per_step", "whole_prompts"),
            *("whole_schemas", "tokens_per_step", "form", "alpha"),
        )
    ),
    *("objective.reduction", "objective.dynamic_sampling"),
    *("objective.overlong_buffer", "objective.overlong_penalty"),
)
"""Settings that this package reads: before and after training, or from the recipe in workers."""

_OFF = (
    *(f"model.adapter.{name}" for name in ("rank", "alpha", "targets", "init")),
    *(
        f"self_consistency.{name}"
        for name in ("file", "only", "novel", "allow_overlap", "agreement")
    ),
    *(f"environment.{name}" for name in EnvironmentSettings.model_fields if name != "path"),
    *("train.keep_samples_mb", "evaluate.keep_best", "evaluate.result"),
    *(
        f"evaluate.during.{name}"
        for name in ("samples", "k", "sets", "problems", "greedy", "compared")
    ),
    *(
        f"objective.advantage.{name}"
        for term in ADVANTAGES.values()
        for name in term.parameters.model_fields
    ),
)
"""Settings that only matter if another one, which has a row, switches them on."""

_REFUSED = {
    "model.weights": Row(
        only=("float32",), why=f"the engine trains float32 weights; {_OWN} train bfloat16"
    ),
    "model.adapter.kind": Row(
        only=(), why=f"the engine is given whole weights; {_OWN} train adapters"
    ),
    "data.verifier": Row(
        never=("math_qwen",),
        why="it reads LaTeX by another antlr4 than verl's Hydra needs; use 'math'",
    ),
    "data.verifier_crash_limit": Row(
        only=(0.5, 1.0),
        why=f"a crash while it trains removes one answer and does not end the run; {_OWN} "
        f"count them",
    ),
    **{
        f"data.{key}": Row(
            only=(setting.default,), why=f"verl's reward workers grade with the default; {_OWN} not"
        )
        for key, setting in verifier_settings().items()
        if key != "sql_rule"
    },
    "data.template": Row(
        only=(),
        why="verl's workers load the saved tokenizer; save the chat template with these "
        "values in it",
    ),
    "sampling.stop": Row(
        only=([],), why=f"verl stops at the model's own end tokens; {_OWN} take more"
    ),
    "presample.keep": Row(
        only=(1,), why=f"verl's pool has one answer of a problem; {_OWN} keep more"
    ),
    "self_consistency.problems_per_step": Row(
        only=(0,), why=f"it learns from labelled problems; {_OWN} learn without"
    ),
    "objective.advantage.kind": Row(
        never=tuple(
            name for name, term in ADVANTAGES.items() if term.reads & READ_IN_OWN_LOOP.keys()
        ),
        why="it reads the initial policy's log-probs of new samples, which verl's rows do not "
        f"say; {_OWN}",
    ),
    "objective.penalties.*.kind": Row(
        never=("entropy", "exact_reverse_kl", "exact_forward_kl"), why=_SAMPLED
    ),
    "objective.max_refills": Row(
        only=(10,), why=f"verl's filter_groups draws until a step is full; {_OWN} count its refills"
    ),
    "objective.overlong_filter": Row(
        only=(False,),
        why=f"verl counts answers that were cut off in its loss; {_OWN} leave them out",
    ),
    "train.problems_per_step": Row(
        never=(0,), why=f"a step of verl begins with new answers; {_OWN} train only on stored ones"
    ),
    "train.shared_prompts": Row(
        only=("auto",), why=f"it computes rows in its own way; {_OWN} share prompts"
    ),
    "train.keep_samples": Row(
        only=(4, "none"), why=f"the engine's answers of training are not kept; {_OWN}"
    ),
    "train.final_rate": Row(
        only=(1.0,),
        why=f"verl's learning rate is constant or a cosine; {_OWN} let it fall in a line",
    ),
    "train.old_logprobs": Row(
        only=("auto", "recompute"),
        why="verl computes old log-probs by one more forward; `--engine own` takes the sampler's",
    ),
    "evaluate.every": Row(
        only=(0,), why=f"this package evaluates before and after it; {_OWN} evaluate in between too"
    ),
}

VERL_ROWS: Mapping[str, Row] = MappingProxyType(
    {**dict.fromkeys((*IN_COMMANDS, *_READ_HERE, *_OFF), Row()), **_REFUSED}
)
