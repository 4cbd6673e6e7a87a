"""What recipes say in the words of transformers' TrainingArguments."""

from math import gcd
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

from dph.errors import SettingsError
from dph.lab.base.recipes import AdamSettings, DeviceSettings

_NEWER = "activation_checkpointing"
_CHECKPOINTING = (
    _NEWER if _NEWER in TrainingArguments.__dataclass_fields__ else "gradient_checkpointing"
)
"""What the release of transformers calls it."""


def trainer_settings(
    directory: Path,
    *,
    optimizer: AdamSettings,
    device: DeviceSettings,
    seed: int,
    sequences_per_step: int,
    sequences_at_once: int,
    checkpoint_every: int,
) -> dict[str, Any]:
    """Arguments that every trainer gets; checkpoints lie in ``directory``.

    Raises:
        SettingsError: the device is not there.
    """
    if device.device == "cuda" and not torch.cuda.is_available():
        raise SettingsError('device is "cuda", but there is no CUDA device; use "cpu" or "auto"')
    processes = 1 if device.device == "cpu" else max(1, torch.cuda.device_count())
    together = sequences_at_once * processes
    if sequences_per_step % together:
        raise SettingsError(
            "need sequences_per_step a multiple of sequences_at_once times devices, got "
            f"{sequences_per_step=}, {sequences_at_once=}, devices={processes}"
        )
    return {
        "output_dir": str(directory),
        "per_device_train_batch_size": sequences_at_once,
        "gradient_accumulation_steps": sequences_per_step // together,
        "learning_rate": optimizer.learning_rate,
        "adam_beta1": optimizer.betas[0],
        "adam_beta2": optimizer.betas[1],
        "adam_epsilon": optimizer.eps,
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.max_grad_norm,
        "optim": "adamw_torch",
        "seed": seed,
        "bf16": device.dtype == "bfloat16",
        "use_cpu": device.device == "cpu",
        _CHECKPOINTING: device.gradient_checkpointing,
        "save_strategy": "steps",
        "save_steps": checkpoint_every,
        # A checkpoint is marked as whole after older ones are removed: two, so that one always is.
        "save_total_limit": 2,
        # A mean over steps never spans a checkpoint: after a kill it is that of the same steps.
        "logging_steps": gcd(10, checkpoint_every),
        # Otherwise a loss that is NaN is logged as the mean of the others, in the end as 0.
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }
