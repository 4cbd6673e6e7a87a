"""MaxRL: rare successes count for more, as they do in maximum likelihood."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.objectives.advantages.group import GroupAdvantage, right_answers

# F-GRPO: groups that mostly succeed count for less.


@dataclass(frozen=True, slots=True)
class FocalAdvantage:
    """Group-relative advantages, scaled down by the success rate of their group.

    Equation: (1 - rate)^gamma A, with A of GRPO and rate = right answers / samples (F-GRPO,
    arXiv:2602.06717, section 4). The code of its authors was not available; that of
    arXiv:2605.00365 has the same formula as a rival, with gamma 0.5.
    Limits: gamma = 0 is GRPO; groups without signal have exactly 0. The sum stays 0, because
    one factor belongs to the whole group.

    Raises:
        SettingsError: gamma is below 0 or not finite, or ``scale`` is neither "std" nor "none".
    """

    gamma: float = 0.5
    scale: Literal["std", "none"] = "std"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < float("inf"):
            raise SettingsError(f"gamma of f_grpo must be finite and at least 0, got {self.gamma}")
        GroupAdvantage(self.scale)

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: a reward is neither 0 nor 1.
        """
        rate = right_answers(rewards, "f_grpo").to(rewards.dtype).mean(-1, keepdim=True)
        return (1 - rate) ** self.gamma * GroupAdvantage(self.scale)(rewards)


def maxrl_advantages(
    rewards: Float[Tensor, "groups samples"],
) -> Float[Tensor, "groups samples"]:
    """Advantage of each sample over the mean of its group, in units of that mean.

    Equation: (r - mean) / mean, and 0 where nobody is right (MaxRL, arXiv:2602.02710, the
    estimator with a baseline; its authors' code has mean + 1e-6 below the line).
    Computed as: the equation without that eps, which a group with a right answer does not need.
    Limits: exactly 0 where all samples are right, or none. Samples' advantages sum to 0. The
    mean of |A| is 2 (1 - mean), where GRPO's is about 2 sqrt(mean (1 - mean)): the learning rate
    has to be tuned again.
    What it climbs: for groups of n, (1/n) sum of A grad log pi is in expectation the gradient of
    the log-likelihood of a right answer, log p = - sum over k of (1 - p)^k / k, cut off after
    k = n - 1 (a test enumerates it; without the baseline it is cut off after n).

    Raises:
        DataError: a reward is neither 0 nor 1.

    >>> maxrl_advantages(torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    tensor([[ 3., -1., -1., -1.],
            [ 0.,  0.,  0.,  0.]])
    """
    right_answers(rewards, "maxrl")
    mean = rewards.mean(-1, keepdim=True)
    return torch.where(mean > 0, (rewards - mean) / mean, 0.0)


@dataclass(frozen=True, slots=True)
class MaxRL:
    """``maxrl_advantages`` as a term of the loss."""

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample."""
        return maxrl_advantages(rewards)
