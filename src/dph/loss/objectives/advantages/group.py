"""Group-relative advantages: how much better an answer is than its siblings."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dph.errors import DataError, SettingsError

# Rewards that say right or wrong and nothing between.


def right_answers(
    rewards: Float[Tensor, "groups samples"], advantage: str
) -> Bool[Tensor, "groups samples"]:
    """Mask of right samples: those with reward 1. The others have reward 0.

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
            "counts right answers; grade them that way, without objective.overlong_buffer"
        )
    return rewards == 1


def has_signal(rewards: Float[Tensor, "groups samples"]) -> Bool[Tensor, "groups"]:
    """Tell which groups hold at least two different rewards.

    The others have advantage 0 everywhere: without a KL term they carry no gradient, and
    DAPO's dynamic sampling draws new ones instead.
    """
    if rewards.shape[-1] == 0:
        raise DataError(f"a group needs at least one reward, got shape {tuple(rewards.shape)}")
    return rewards.amax(-1) > rewards.amin(-1)


def group_advantages(
    rewards: Float[Tensor, "groups samples"],
    *,
    scale: Literal["std", "none"] = "std",
    eps: float = 1e-6,
) -> Float[Tensor, "groups samples"]:
    """Advantage of each sample over the mean of its group.

    Equation: (r - mean) / (std + eps) (GRPO, arXiv:2402.03300, section 4.1); r - mean for
    ``scale="none"`` (Dr. GRPO, arXiv:2503.20783).
    The standard deviation is the unbiased one (divisor samples - 1), as in TRL and verl.
    Limits: a group whose rewards are all equal, or with a single sample, gets exactly 0,
    whatever the rounding of its mean.

    Raises:
        SettingsError: ``scale`` is unknown or ``eps`` is not above 0.
        DataError: groups without samples.

    >>> group_advantages(torch.tensor([[1.0, 0.0], [0.1, 0.1]]), scale="none")
    tensor([[ 0.5000, -0.5000],
            [ 0.0000,  0.0000]])
    """
    if scale not in ("std", "none"):
        raise SettingsError(f"advantage scale must be 'std' or 'none', got {scale!r}")
    if not eps > 0:
        raise SettingsError(f"advantage eps must be above 0, got {eps}")
    signal = has_signal(rewards)[:, None]
    centred = rewards - rewards.mean(-1, keepdim=True)
    if scale == "std":
        # One sample has no unbiased deviation; its group has no signal either.
        divisor = max(1, rewards.shape[-1] - 1)
        std = (centred.square().sum(-1, keepdim=True) / divisor).sqrt()
        centred = centred / (std + eps)
    return torch.where(signal, centred, 0.0)


@dataclass(frozen=True, slots=True)
class GroupAdvantage:
    """``group_advantages`` as a term of the loss.

    Raises:
        SettingsError: ``scale`` is neither "std" nor "none".
    """

    scale: Literal["std", "none"] = "std"

    def __post_init__(self) -> None:
        if self.scale not in ("std", "none"):
            raise SettingsError(f"advantage scale must be 'std' or 'none', got {self.scale!r}")

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample."""
        return group_advantages(rewards, scale=self.scale)
