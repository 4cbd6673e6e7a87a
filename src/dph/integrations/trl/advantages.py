"""Advantages that TRL does not have, from the rewards of all processes."""

import torch
from torch import Tensor

from dph.objectives import Advantage, graded_advantages


def all_advantages(
    advantage: Advantage, rewards: Tensor, weights: Tensor, *, samples: int
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
    """
    graded = ~torch.isnan(rewards).all(dim=1)
    total = (rewards * weights.to(rewards.device)).nansum(dim=1)
    found = graded_advantages(advantage, total.view(-1, samples), graded.view(-1, samples))
    return found.flatten()
