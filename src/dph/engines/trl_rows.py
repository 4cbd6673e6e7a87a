"""Every setting of a recipe in TRL: fields of ``DPHConfig``, or arguments."""

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

_NO_ROOM = "TRL computes its loss as a whole, with no place for another term; "
_OWN, _BOTH = "`--engine own` does", "`--engine own` and `--engine verl` do"
_DATA, _REWARD, _OBJECTIVE = "train_dataset", "reward_funcs", "objective"
_OPTIMIZER = "optimizers"

TRL_ROWS: Mapping[str, Row] = MappingProxyType(
    {
        **SHARED_ROWS,
        "environment.path": to("rollout_func"),
        "seed": to("seed"),
        "model.path": to("model"),
        "model.revision": to("model"),
        "model.device": to("use_cpu"),
        "model.dtype": to("bf16"),
        "model.attention": to("model"),
        "model.kernels": to("model"),
        "model.gradient_checkpointing": to("activation_checkpointing"),
        **{f"data.{name}": to(_DATA) for name in ("train", "columns", "chat", "system_prompt")},
        **{f"data.shots.{name}": to(_DATA) for name in SHOTS},
        "data.template": to("processing_class"),
        **{
            f"data.{name}": to(_REWARD)
            for name in (
                *("verifier", "modules", "verifier_workers", "verifier_timeout", "databases"),
                *verifier_settings(),
            )
        },
        "sampling.engine": to("use_vllm"),
        "sampling.temperature": to("temperature"),
        "sampling.top_p": to("top_p"),
        "sampling.max_tokens": to("max_completion_length"),
        "sampling.stop": to("model"),
        "vllm.memory": to("vllm_gpu_memory_utilization"),
        "vllm.gpus": to("vllm_tensor_parallel_size"),
        "vllm.context": to("vllm_max_model_length"),
        "vllm.eager": ours(
            "pre-sampling", only=(False,), why="TRL starts vLLM with its own choice of CUDA graphs"
        ),
        **{
            f"presample.{name}": ours("pre-sampling")
            for name in ("samples", "threshold", "wrong_final", "keep", "seed")
        },
        "presample.pool": to("pool"),
        **{f"stores.*.{name}": to("stores") for name in ("tilt", "values", "targets", "place")},
        **advantage_rows(_OBJECTIVE, title="TRL"),
        "objective.advantage.scale": to("scale_rewards"),
        "objective.surrogate.kind": to(
            _OBJECTIVE, only=("clipped",), why=f"{_NO_ROOM}`--engine own` has"
        ),
        "objective.surrogate.clip_low": to("epsilon"),
        "objective.surrogate.clip_high": to("epsilon_high"),
        **{
            f"objective.surrogate.{name}": under("objective.surrogate.kind")
            for name in ("share", "cov_low", "cov_high")
        },
        "objective.penalties.*.kind": to(
            _OBJECTIVE, only=("kl",), why=f"{_NO_ROOM}`--engine own` has"
        ),
        "objective.penalties.*.weight": to("beta"),
        "objective.penalties.*.estimator": to(
            _OBJECTIVE, only=("k3",), why=f"here TRL's KL term is k3; {_BOTH} compute k2"
        ),
        "objective.penalties.*.share": under("objective.penalties.*.kind"),
        "objective.anchors.*.divergence": to(
            _OBJECTIVE,
            never=("jensen_shannon_definition",),
            why="TRL gives log-probs of the initial policy to its own KL term only; "
            f"{_BOTH} use them",
        ),
        "objective.anchors.*.samples": samples_row(_OBJECTIVE),
        "objective.anchors.*.per_step": to("rehearsal_per_step"),
        **{
            f"objective.anchors.*.{name}": to(_OBJECTIVE)
            for name in (
                *("weight", "whole_prompts", "whole_schemas"),
                *("tokens_per_step", "form", "alpha", "floor"),
            )
        },
        "objective.reduction": to("loss_type"),
        "objective.dynamic_sampling": to(
            _OBJECTIVE, only=(False,), why=f"TRL cannot draw more groups for a step; {_BOTH}"
        ),
        "objective.max_refills": under("objective.dynamic_sampling"),
        "objective.overlong_buffer": to(
            _OBJECTIVE, only=(0.0,), why=f"TRL has no place for it in our rewards; {_BOTH} read it"
        ),
        "objective.overlong_penalty": under("objective.overlong_buffer"),
        "objective.overlong_filter": to("mask_truncated_completions"),
        "train.problems": to(_DATA),
        "train.steps": to("max_steps"),
        "train.problems_per_step": to(
            "per_device_train_batch_size",
            never=(0,),
            why=f"a step of TRL begins with new answers; {_OWN} train on stored ones alone",
        ),
        "train.samples_per_problem": to("num_generations"),
        "train.rehearsal_per_step": to("rehearsal_per_step"),
        "train.minibatches": to("steps_per_generation"),
        "train.epochs": to("num_iterations"),
        **{
            f"train.{name}": to(_OPTIMIZER)
            for name in ("learning_rate", "final_rate", "warmup_steps", "betas", "eps")
        },
        "train.weight_decay": to(_OPTIMIZER),
        "train.max_grad_norm": to("max_grad_norm"),
        "train.microbatch_tokens": to("gradient_accumulation_steps"),
        "train.old_logprobs": to(
            _OBJECTIVE,
            only=("auto",),
            why="TRL computes old log-probs where a rollout feeds several optimizer steps; "
            "`--engine own` lets you choose",
        ),
        "train.checkpoint_every": to("save_steps"),
        "train.keep_checkpoints": to("save_total_limit"),
        "trl.processes": to("accelerate launch --num_processes"),
        **{
            f"verl.{name}": others("verl")
            for name in ("nodes", "gpus", "address", "rollout", "overrides")
        },
    }
)
