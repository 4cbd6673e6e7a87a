"""AdamW with linear warm-up."""

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel

from dph.recipe import TrainingSettings
from dph.runs.train.bfloat16_adamw import bfloat16_adamw


def make_optimizer(
    model: PreTrainedModel, train: TrainingSettings, *, seed: int = 0
) -> torch.optim.Optimizer:
    """AdamW over every trainable parameter; biases and norms are not decayed.

    Whole weights in float32 on a CPU take torch's fused kernel, one pass over memory in place of
    ten; an adapter and a GPU keep what torch chooses. Weights in bfloat16 are rounded at random, as
    ``seed`` says.

    Raises:
        SettingsError: they are, and torchao is not installed.
    """
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() > 1], "weight_decay": train.weight_decay},
        {"params": [p for p in trainable if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if any(p.dtype == torch.bfloat16 for p in trainable):
        return bfloat16_adamw([group for group in groups if group["params"]], train, seed=seed)
    whole = all(
        p.requires_grad and p.dtype == torch.float32 and p.device.type == "cpu"
        for p in model.parameters()
    )
    return torch.optim.AdamW(
        groups,
        lr=train.learning_rate,
        betas=train.betas,
        eps=train.eps,
        fused=True if whole else None,
    )


def make_schedule(
    optimizer: torch.optim.Optimizer, train: TrainingSettings, *, done: int
) -> LambdaLR:
    """A learning rate that rises over ``warmup_steps`` optimizer steps and stays, or falls.

    Both in a straight line: down to ``final_rate`` of it after the run's last optimizer step.
    ``done`` optimizer steps have been taken already.
    """
    for group in optimizer.param_groups:
        group["initial_lr"] = train.learning_rate
    warmup = train.warmup_steps
    total, fall = train.steps * train.epochs * train.minibatches, 1.0 - train.final_rate
    return LambdaLR(
        optimizer,
        lambda step: min(1.0, (step + 1) / (warmup + 1)) * (1.0 - fall * min(1.0, step / total)),
        last_epoch=done - 1,
    )
