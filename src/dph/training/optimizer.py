"""AdamW with linear warm-up."""

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel

from dph.settings import TrainingSettings


def make_optimizer(model: PreTrainedModel, train: TrainingSettings) -> torch.optim.AdamW:
    """AdamW over every trainable parameter; biases and norms are not decayed."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.dim() > 1], "weight_decay": train.weight_decay},
        {"params": [p for p in trainable if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=train.learning_rate, betas=train.betas, eps=train.eps)


def make_schedule(
    optimizer: torch.optim.Optimizer, train: TrainingSettings, *, done: int
) -> LambdaLR:
    """A learning rate that rises linearly over ``warmup_steps`` optimizer steps and stays.

    ``done`` optimizer steps have been taken already.
    """
    for group in optimizer.param_groups:
        group["initial_lr"] = train.learning_rate
    warmup = train.warmup_steps
    return LambdaLR(
        optimizer,
        lambda step: min(1.0, (step + 1) / (warmup + 1)),
        last_epoch=done - 1,
    )
