"""MaxRL: rare successes count for more, as they do in maximum likelihood."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from dph.loss.objectives.advantages.right_or_wrong import right_answers


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
