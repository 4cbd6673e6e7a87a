"""What other packages call our settings: an unknown key is better explained than guessed at."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

NAMES_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "lr": "train.learning_rate",
        "batch_size": "train.problems_per_step",
        "train_batch_size": "train.problems_per_step",
        "num_generations": "train.samples_per_problem",
        "group_size": "train.samples_per_problem",
        "rollout_n": "train.samples_per_problem",
        "n": "train.samples_per_problem",
        "max_steps": "train.steps",
        "num_steps": "train.steps",
        "total_training_steps": "train.steps",
        "num_iterations": "train.epochs",
        "num_train_epochs": "train.epochs",
        "ppo_epochs": "train.epochs",
        "num_mini_batches": "train.minibatches",
        "warmup": "train.warmup_steps",
        "lr_warmup_steps": "train.warmup_steps",
        "wd": "train.weight_decay",
        "adam_epsilon": "train.eps",
        "adam_eps": "train.eps",
        "adam_betas": "train.betas",
        "grad_clip": "train.max_grad_norm",
        "gradient_clip": "train.max_grad_norm",
        "clip_grad": "train.max_grad_norm",
        "save_steps": "train.checkpoint_every",
        "save_freq": "train.checkpoint_every",
        "save_total_limit": "train.keep_checkpoints",
        "eval_steps": "evaluate.every",
        "test_freq": "evaluate.every",
        "eval_every": "evaluate.every",
        "metric_for_best_model": "evaluate.keep_best",
        "load_best_model_at_end": "evaluate.result",
        "beta": "objective.kl_coefficient",
        "kl_beta": "objective.kl_coefficient",
        "kl_coef": "objective.kl_coefficient",
        "kl_loss_coef": "objective.kl_coefficient",
        "kl_weight": "objective.kl_coefficient",
        "kl_type": "objective.kl_estimator",
        "kl_loss_type": "objective.kl_estimator",
        "epsilon": "objective.clip_low",
        "epsilon_low": "objective.clip_low",
        "clip_ratio": "objective.clip_low",
        "clip_ratio_low": "objective.clip_low",
        "cliprange": "objective.clip_low",
        "epsilon_high": "objective.clip_high",
        "clip_ratio_high": "objective.clip_high",
        "loss_type": "objective.reduction",
        "loss_agg_mode": "objective.reduction",
        "scale_rewards": "objective.advantage_scale",
        "mask_truncated_completions": "objective.overlong_filter",
        "temp": "sampling.temperature",
        "max_new_tokens": "sampling.max_tokens",
        "max_completion_length": "sampling.max_tokens",
        "max_response_length": "sampling.max_tokens",
        "stop_strings": "sampling.stop",
        "model_name_or_path": "model.path",
        "model_name": "model.path",
        "torch_dtype": "model.dtype",
        "attn_implementation": "model.attention",
        "dataset": "data.train",
        "train_files": "data.train",
        "train_path": "data.train",
        "reward_fn": "data.verifier",
        "reward_func": "data.verifier",
        "reward_funcs": "data.verifier",
        "reward_function": "data.verifier",
        "grader": "data.verifier",
        "timeout": "data.verifier_timeout",
        "workers": "data.verifier_workers",
        "num_samples": "presample.samples",
        "report_to": "track.to",
        "project_name": "track.project",
    }
)
"""The last part of a key as TRL, verl and others write it, and our key for it."""


def meant_key(key: str, known: Collection[str]) -> str | None:
    """Our name of the setting that other packages call ``key``, in the same section if it is there.

    >>> meant_key("train.lr", ["train.eps", "train.learning_rate"])
    'train.learning_rate'
    """
    section, _, name = key.rpartition(".")
    meant = NAMES_ELSEWHERE.get(name.lower().replace("-", "_"))
    if meant is None:
        return None
    nearby = f"{section}.{meant.rpartition('.')[2]}"
    return nearby if nearby in known else meant
