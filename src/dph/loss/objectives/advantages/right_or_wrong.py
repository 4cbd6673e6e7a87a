"""Rewards that say right or wrong and nothing between."""

from jaxtyping import Bool, Float
from torch import Tensor

from dph.errors import DataError


def right_answers(
    rewards: Float[Tensor, "groups samples"], advantage: str
) -> Bool[Tensor, "groups samples"]:
    """Which samples are right: reward 1. The others have reward 0.

    Raises:
        DataError: a reward is neither 0 nor 1, as with a graded or a shaped reward
            (``objective.overlong_buffer``); names the first.

    >>> import torch
    >>> right_answers(torch.tensor([[1.0, 0.0]]), "maxrl").tolist()
    [[True, False]]
    """
    other = rewards[(rewards != 0) & (rewards != 1)]
    if len(other):
        raise DataError(
            f"the advantage {advantage!r} needs rewards of 0 or 1, got {float(other[0]):g}: it "
            "counts right answers; grade them so, without objective.overlong_buffer"
        )
    return rewards == 1
