"""Every setting of a recipe in verl: keys of its configuration."""

from collections.abc import Mapping
from types import MappingProxyType

from dph.engines.shared_rows import (
    SHARED_ROWS,
    advantage_rows,
    others,
    ours,
    samples_row,
    to,
    under,
)
from dph.recipe.data import SHOTS
from dph.recipe.engines import Row
from dph.tasks.verifiers.table import verifier_settings

_ACTOR, _ROLLOUT, _MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
_OBJECTIVE, _FILES = "dph.objective", "data.train_files"
_OWN, _BOTH = "`--engine own` does", "`--engine own` and `--engine trl` do"
_SAMPLED = "verl gives its loss the log-probs of sampled tokens alone; `--engine own` has"
_WORKERS = "verl's reward workers grade with the default"

VERL_ROWS: Mapping[str, Row] = MappingProxyType(
    {
        **SHARED_ROWS,
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
                "evaluation", only=(setting.default,), why=f"{_WORKERS}; {_BOTH} not"
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
            why=f"verl stops at the model's own end tokens; {_BOTH} take more",
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
            why=f"verl's pool has one answer of a problem; {_BOTH} keep more",
        ),
        "presample.seed": to("dph.seed"),
        "presample.pool": to("dph.pool"),
        **{f"stores.*.{name}": to("dph.stores") for name in ("tilt", "values", "targets", "place")},
        **advantage_rows(_OBJECTIVE, title="verl"),
        "objective.surrogate.kind": to(_OBJECTIVE, never=("clip_cov",), why=_SAMPLED),
        **{f"objective.surrogate.{name}": to(_OBJECTIVE) for name in ("clip_low", "clip_high")},
        **{
            f"objective.surrogate.{name}": under("objective.surrogate.kind")
            for name in ("share", "cov_low", "cov_high")
        },
        "objective.penalties.*.kind": to(
            _OBJECTIVE,
            never=("entropy", "exact_reverse_kl", "exact_forward_kl", "kl_cov"),
            why=_SAMPLED,
        ),
        **{f"objective.penalties.*.{name}": to(_OBJECTIVE) for name in ("weight", "estimator")},
        "objective.penalties.*.share": under("objective.penalties.*.kind"),
        "objective.anchors.*.samples": samples_row(_OBJECTIVE),
        **{
            f"objective.anchors.*.{name}": to(_OBJECTIVE)
            for name in (
                *("divergence", "weight", "per_step", "whole_prompts"),
                *("whole_schemas", "tokens_per_step", "form", "alpha", "floor"),
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
            why=f"verl counts answers that were cut off in its loss; {_BOTH} leave them out",
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
            why=f"verl's learning rate is constant or a cosine; {_BOTH} let it fall in a line",
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
        "trl.processes": others("trl"),
        "verl.nodes": to("trainer.nnodes"),
        "verl.gpus": to("trainer.n_gpus_per_node"),
        "verl.address": to("RAY_ADDRESS"),
        "verl.rollout": to(f"{_ROLLOUT}.name"),
        "verl.overrides": to("the end of the command"),
    }
)
