"""Pass@k training: a sample is valued by the subsets of size k that it belongs to."""

from dataclasses import dataclass
from functools import lru_cache
from math import comb, sqrt
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.objectives.advantages.group import right_answers

Baseline = Literal["none", "leave_one_out", "k_minus_one"]


@dataclass(frozen=True, slots=True)
class PKPO:
    """n times the sample's share in the unbiased estimate of max@k, less a baseline.

    Equation (PKPO, arXiv:2505.15201, equations 19, 29 and 33 in the numbering of two public
    implementations; the authors' listing was not available): with M(I) the largest reward of a
    subset I of the group,
    none: s_i = sum over subsets I of size k with i of M(I) / C(n, k);
    leave_one_out: less k / (n - 1) times the mean of M over the size-k subsets without i;
    k_minus_one: M(I) becomes M(I) - M(I without i).
    Computed as: A_i = n s_i by one matrix for each n, applied to the sorted rewards, so that
    (1/n) sum of A grad log pi is an unbiased gradient of the mean of M (a test enumerates it), on
    the scale of r for k = 1.
    Limits: rewards may be any numbers. Only with ``k_minus_one`` have groups of equal rewards
    exactly 0: the baseline of ``leave_one_out`` is one of n - 1 samples, whose s are larger.

    Raises:
        SettingsError: k is below 1, or below 2 with "k_minus_one", or the baseline is unknown.
    """

    k: int = 4
    baseline: Baseline = "k_minus_one"

    def __post_init__(self) -> None:
        if self.baseline not in ("none", "leave_one_out", "k_minus_one"):
            raise SettingsError(
                "baseline of pkpo must be 'none', 'leave_one_out' or 'k_minus_one', got "
                f"{self.baseline!r}"
            )
        least = 2 if self.baseline == "k_minus_one" else 1
        if self.k < least:
            raise SettingsError(
                f"k of pkpo must be at least {least} with baseline={self.baseline!r}, got {self.k}"
            )

    @property
    def least_samples(self) -> int:
        """Smallest group that has a subset of k samples (in addition to the one left out)."""
        return self.k + (self.baseline == "leave_one_out")

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """The advantage of every sample.

        Raises:
            DataError: the groups have too few samples for k.
        """
        samples = rewards.shape[-1]
        if samples < self.least_samples:
            raise DataError(
                f"pkpo with k={self.k} and baseline={self.baseline!r} needs "
                f"{self.least_samples} samples a group, got {samples}"
            )
        counts, divisor = _counts(samples, self.k, self.baseline)
        matrix = torch.tensor(counts, dtype=torch.float64, device=rewards.device)
        ordered = rewards.double().sort(dim=-1, stable=True)
        values = ordered.values
        if self.baseline == "k_minus_one":  # does not see the level: equal rewards get exactly 0
            values = values - values[:, :1]
        worth = values @ matrix.T * (samples / divisor)
        return torch.zeros_like(values).scatter(-1, ordered.indices, worth).to(rewards.dtype)


@lru_cache(maxsize=64)
def _counts(n: int, k: int, baseline: Baseline) -> tuple[tuple[tuple[float, ...], ...], int]:
    """From rewards in rising order to s_i, as whole numbers and their common divisor.

    Entry (i, j) is the number of subsets with i in which the j-th reward is the largest. As whole
    numbers the terms of right answers cancel exactly if one more or less makes no difference, as
    long as they stay below 2**53 (n = 64 with k up to 16, say).
    """
    rows, divisor = [], comb(n, k)
    if baseline == "leave_one_out":
        divisor *= (n - 1) * (n - k)
    for i in range(n):
        row = [_largest_with(i, j, k) for j in range(n)]
        if baseline == "leave_one_out":
            less = [k * n * _largest_without(i, j, k) for j in range(n)]
            row = [(n - 1) * (n - k) * a - b for a, b in zip(row, less, strict=True)]
        elif baseline == "k_minus_one":
            row = [a - _largest_without(i, j, k - 1) for j, a in enumerate(row)]
        rows.append(tuple(map(float, row)))
    return tuple(rows), divisor


def _largest_with(i: int, j: int, k: int) -> int:
    """Subsets of size k that hold i and whose largest is j."""
    if j == i:
        return comb(i, k - 1)
    return comb(j - 1, k - 2) if j > i and k >= 2 else 0


def _largest_without(i: int, j: int, k: int) -> int:
    """Subsets of size k that do not hold i and whose largest is j."""
    return 0 if j == i else comb(j - (j > i), k - 1)


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
