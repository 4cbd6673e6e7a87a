"""Before the first step: are the stored log-probs those of this policy?"""

from collections.abc import Sequence

from dph.errors import PoolError
from dph.model.forward.scoring import score_completions
from dph.runs.train.logprob_gap import TOLERANCE
from dph.runs.train.loss_batch import TrainingForward
from dph.runs.train.rows import StoredRow

CHECKED = 1024
"""Stored samples that are looked at, spread evenly: a mean needs no more, a pool may hold 10^5."""


def require_reference(samples: Sequence[StoredRow], forward: TrainingForward) -> None:
    """Refuse to rehearse log-probs that the untrained policy does not reproduce.

    Raises:
        PoolError: there is nothing to rehearse, or the mean gap is above the tolerance.
    """
    require_small_gap(mean_reference_gap(samples, forward), dtype=forward.dtype)


def checked(samples: Sequence[StoredRow]) -> list[StoredRow]:
    """At most ``CHECKED`` samples, spread evenly.

    Raises:
        PoolError: there is none.
    """
    if not samples:
        raise PoolError(
            "the pool holds no rehearsal sample, but the method rehearses: `dph presample` says "
            "of a finished pool why; or use a method without rehearsal"
        )
    return [samples[i] for i in range(0, len(samples), -(-len(samples) // CHECKED))]


def mean_reference_gap(samples: Sequence[StoredRow], forward: TrainingForward) -> float:
    """Mean |log pi - log pi_ref| over the tokens of at most ``CHECKED`` samples, in nats."""
    samples = checked(samples)
    scores = score_completions(
        forward.model,
        [sample.prompt_ids for sample in samples],
        [sample.completion_ids for sample in samples],
        temperature=forward.temperature,
        pad_id=forward.pad_id,
        token_budget=forward.token_budget,
        dtype=forward.dtype,
        sharing=forward.sharing,
    )
    return mean_gap(samples, scores)


def mean_gap(samples: Sequence[StoredRow], logprobs: Sequence[Sequence[float]]) -> float:
    """Mean distance, in nats a token, of ``logprobs`` to those that ``samples`` store."""
    gaps = [
        abs(now - stored)
        for sample, row in zip(samples, logprobs, strict=True)
        for now, stored in zip(row, sample.ref_logprobs, strict=True)
    ]
    return sum(gaps) / len(gaps)


def require_small_gap(gap: float, *, dtype: str) -> None:
    """Refuse a mean gap at step 0 that is more than rounding.

    Raises:
        PoolError: it is above the tolerance of ``dtype``.
    """
    tolerance = TOLERANCE[dtype]
    if not gap <= tolerance:
        raise PoolError(
            f"the stored log-probs are not this policy's: mean |log pi - log pi_ref| at step 0 is "
            f"{gap:.2g} nats a token, at most {tolerance:g} is rounding; pre-sample again with "
            "this model, temperature and dtype"
        )
