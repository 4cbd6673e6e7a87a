"""Advantages that TRL does not have, from the rewards of all processes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.objectives import AnyAdvantage, GroupSamples, graded_advantages


def all_advantages(
    advantage: AnyAdvantage,
    rewards: Tensor,
    weights: Tensor,
    *,
    samples: int,
    read: GroupSamples | None = None,
) -> Tensor:
    """One advantage for each sample, in the order of ``rewards``.

    Computed as: TRL's weighted sum over reward functions, then ``advantage`` of every group of
    ``samples`` rows in a row. A sample for which all functions returned None could not be graded:
    it is no part of its group.

    Args:
        advantage: the term.
        rewards: a row for each sample and a column for each reward function; NaN where that
            returned None.
        weights: one for each reward function.
        samples: the size of a group.
        read: what the term reads of the same samples, in groups.
    """
    graded = ~torch.isnan(rewards).all(dim=1)
    total = (rewards * weights.to(rewards.device)).nansum(dim=1)
    found = graded_advantages(advantage, total.view(-1, samples), graded.view(-1, samples), read)
    return found.flatten()


def read_logprobs(trainer: Any, batch: Mapping[str, Tensor], *, samples: int) -> GroupSamples:
    """Sums of log-probs (nats) and lengths of all processes' samples, in groups.

    They are TRL's old log-probs where it computes any, and else those of one more forward: TRL
    leaves them out where every sample is used before the weights move.

    Raises:
        SettingsError: the batch holds images, which that forward does not read.
    """
    if "pixel_values" in batch:
        raise SettingsError(
            "objective.advantage reads the log-probs of samples, which is for text alone; this "
            "batch has images"
        )
    mask = batch["completion_mask"]
    if "tool_mask" in batch:
        mask = mask * batch["tool_mask"]
    logprobs = batch.get("old_per_token_logps")
    if logprobs is None:
        with torch.no_grad():
            logprobs = trainer._get_per_token_logps_and_entropies(
                trainer.model,
                torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                batch["completion_ids"].shape[1],
                batch_size=trainer.args.per_device_train_batch_size,
            )[0]
    sums = torch.where(mask.bool(), logprobs, 0.0).sum(dim=1)
    together = trainer.accelerator.gather(sums).view(-1, samples)
    lengths = trainer.accelerator.gather(mask.sum(dim=1)).view(-1, samples)
    return GroupSamples(logprobs=together.float(), lengths=lengths.long().clamp(min=1))
