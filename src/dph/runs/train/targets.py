"""Stored distributions as tensors: the buckets of every position and their targets."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.errors import DataError
from dph.runs.presample.distributions import DistributionSample


@dataclass(frozen=True, slots=True)
class TargetBuckets:
    """At each position, row after row, some tokens and their target log-probs, the rest last.

    Positions with fewer tokens repeat their first, whose copies have a target of -inf.
    """

    ids: Int[Tensor, "positions chosen"]
    targets: Float[Tensor, "positions chosen+1"]


def target_buckets(samples: Sequence[DistributionSample]) -> TargetBuckets:
    """The buckets of all positions of some samples.

    Raises:
        DataError: a sample does not say at each of its tokens which tokens it tells apart.
    """
    positions = [position for sample in samples for position in zip(*_checked(sample), strict=True)]
    width = max((len(ids) for ids, _, _ in positions), default=1)
    ids = torch.tensor([[*i, *[i[0]] * (width - len(i))] for i, _, _ in positions])
    nothing = float("-inf")
    targets = [[*q, *[nothing] * (width - len(q)), tail] for _, q, tail in positions]
    return TargetBuckets(
        ids=ids.view(len(positions), width).long(),
        targets=torch.tensor(targets, dtype=torch.float32).view(len(positions), width + 1),
    )


def _checked(
    sample: DistributionSample,
) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[float]], Sequence[float]]:
    parts = sample.token_ids, sample.logprobs, sample.log_tails
    positions = len(sample.completion_ids)
    fits = all(len(part) == positions for part in parts) and all(
        len(ids) == len(logprobs) > 0
        for ids, logprobs in zip(sample.token_ids, sample.logprobs, strict=True)
    )
    if not fits:
        raise DataError(
            f"stored distributions of {sample.problem_id!r}, sample {sample.sample_index}: need "
            f"tokens, as many log-probs and a tail at each of {positions} positions, got "
            f"{len(parts[0])}, {len(parts[1])} and {len(parts[2])} positions"
        )
    return parts
