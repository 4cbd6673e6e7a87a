"""Pass@k training: a sample is worth what the size-k subsets that it belongs to are worth."""

from dataclasses import dataclass
from functools import lru_cache
from math import comb, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.objectives.advantages.right_or_wrong import right_answers


@dataclass(frozen=True, slots=True)
class PassAtK:
    """The mean over all subsets of k samples of the subset's standardised Pass@k.

    Equation: with R = 1 - C(n - c, k) / C(n, k) and s = sqrt(R (1 - R)), right answers have
    (1 - R) / s and wrong ones (1 - R - C(n - c - 1, k - 1) / C(n - 1, k - 1)) / s (Pass@k
    training with analytical derivation, arXiv:2508.10751; read in the authors' code, which adds
    1e-6 to s).
    Limits: exactly 0 where every subset succeeds (n - c < k) or none does, so also for groups of
    k samples, which engines refuse (``least_samples``). k = 1 is GRPO with
    the deviation of divisor n. The sum over a group is 0.

    Raises:
        SettingsError: k is below 1.
    """

    k: int = 4

    def __post_init__(self) -> None:
        if self.k < 1:
            raise SettingsError(f"k of pass_at_k must be at least 1, got {self.k}")

    @property
    def least_samples(self) -> int:
        """A smaller group has no two subsets of k samples to compare."""
        return self.k + 1

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: a reward is neither 0 nor 1, or the groups have fewer than k samples.
        """
        right = right_answers(rewards, "pass_at_k")
        samples = rewards.shape[-1]
        if samples < self.k:
            raise DataError(f"pass_at_k with k={self.k} needs k samples a group, got {samples}")
        table = torch.tensor(_table(samples, self.k), dtype=rewards.dtype, device=rewards.device)
        worth = table[right.sum(-1)]
        return torch.where(right, worth[:, 1:], worth[:, :1])


@lru_cache(maxsize=64)
def _table(n: int, k: int) -> tuple[tuple[float, float], ...]:
    """Advantages of wrong and right answers by the number c of right ones."""
    return tuple(_advantages(n, c, k) for c in range(n + 1))


def _advantages(n: int, c: int, k: int) -> tuple[float, float]:
    fails = comb(n - c, k) / comb(n, k)
    if fails in (0, 1):
        return 0.0, 0.0
    deviation = sqrt(fails * (1 - fails))
    fails_with_it = comb(n - c - 1, k - 1) / comb(n - 1, k - 1)
    return (fails - fails_with_it) / deviation, fails / deviation
