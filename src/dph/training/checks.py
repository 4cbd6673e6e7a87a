"""Before the first step: are the stored log-probs those of this policy?"""

from collections.abc import Sequence

from dph.errors import PoolError
from dph.presampling.pool import RehearsalSample
from dph.rollout.scoring import score_completions
from dph.training.logprob_gap import TOLERANCE
from dph.training.update import Forward

CHECKED = 1024
"""Stored samples that are looked at, spread evenly: a mean needs no more, a pool may hold 10^5."""


def mean_reference_gap(samples: Sequence[RehearsalSample], forward: Forward) -> float:
    """Mean |log pi - log pi_ref| over the tokens of at most ``CHECKED`` samples, in nats."""
    samples = samples[:: -(-len(samples) // CHECKED)]
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
    gaps = [
        abs(now - stored)
        for sample, row in zip(samples, scores, strict=True)
        for now, stored in zip(row, sample.ref_logprobs, strict=True)
    ]
    return sum(gaps) / len(gaps)


def require_reference(samples: Sequence[RehearsalSample], forward: Forward) -> None:
    """Refuse to rehearse log-probs that the untrained policy does not reproduce.

    Raises:
        PoolError: there is nothing to rehearse, or the mean gap is above the tolerance.
    """
    if not samples:
        raise PoolError(
            "the pool holds no rehearsal sample, but the method rehearses: lower "
            "presample.threshold, or use a method without rehearsal"
        )
    gap, tolerance = mean_reference_gap(samples, forward), TOLERANCE[forward.dtype]
    if not gap <= tolerance:
        raise PoolError(
            f"the stored log-probs are not this policy's: mean |log pi - log pi_ref| at step 0 is "
            f"{gap:.2g} nats a token, at most {tolerance:g} is rounding; pre-sample again with "
            "this model, temperature and dtype"
        )
