"""How far the sampler's log-probs are from those of the training forward."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

_LOG = logging.getLogger(__name__)

TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}
"""Largest mean difference, in nats a token, that is rounding, with room."""


@dataclass(frozen=True, slots=True)
class LogprobGap:
    """Differences over tokens, in nats."""

    mean: float
    largest: float


def logprob_gap(
    sampler: Sequence[Sequence[float]], trainer: Sequence[Sequence[float]], *, dtype: str
) -> LogprobGap | None:
    """Mean and largest |log pi_sampler - log pi_trainer|; None without any token.

    A mean above what rounding in ``dtype`` explains is logged as a warning: then the importance
    ratios are wrong by as much.
    """
    gaps = [
        abs(a - b)
        for row, other in zip(sampler, trainer, strict=True)
        for a, b in zip(row, other, strict=True)
    ]
    if not gaps:
        return None
    gap = LogprobGap(mean=fmean(gaps), largest=max(gaps))
    if not gap.mean <= TOLERANCE[dtype]:
        _LOG.warning(
            "log-probs of sampler and trainer differ by %.2g nats a token (at most %g is "
            "rounding): do both have the same weights, temperature and precision?",
            gap.mean,
            TOLERANCE[dtype],
        )
    return gap
