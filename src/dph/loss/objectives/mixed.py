"""The whole objective: explore where the model fails, rehearse where it succeeds.

    total = policy + sum of weight * penalty + sum of weight * anchor

An anchor is a rehearsal term (arXiv:2509.07430, section 4, has one, with weight eta). Every term is
a reduction over its own tokens, with its own denominator: policy and penalties over the policy
rows, each rehearsal term over its stored rows.

A divergence that also acts on the policy's samples (Jensen-Shannon by its definition) is reduced
over its stored rows for the one half and over the policy rows for the other. So the halves balance
for any numbers of rows, which is the purpose of the count weights of the paper's equation 16.

Differs from the paper: its code divides both sums by all rows of the batch. Up to an overall
factor that is this loss with eta = eta_fork * rehearsal rows / exploration rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dph.errors import DataError
from dph.loss.divergences import Divergence, PolicyHalf
from dph.loss.divergences.base import at_least_float32
from dph.loss.objectives.objective import Objective, weighted_sum
from dph.loss.objectives.surrogates import importance_ratio
from dph.loss.objectives.terms import PolicyTokens, VocabularyPenalty

POLICY = 0
"""``source`` of a row that the policy drew; rows of the i-th rehearsal term, from 0, have i + 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBatch:
    """Some rows (a micro-batch, or all) of an optimizer mini-batch.

    All log-probs are in nats, of completion tokens, at the training temperature. Policy rows
    use ``old_logprobs`` and ``advantages``, and ``ref_logprobs`` only if a term reads them; stored
    rows use only ``ref_logprobs``. Unused values, and all that ``mask`` leaves out, may be
    anything, NaN included: they reach no value and no gradient.

    ``source`` is ``POLICY``, or 1 and more for the rows of the rehearsal terms (anchors) in their
    order. ``weights`` come from ``row_weights`` over the *whole mini-batch*, called once for its
    policy rows and once for the rows of each rehearsal term.
    """

    logprobs: Float[Tensor, "rows tokens"]
    old_logprobs: Float[Tensor, "rows tokens"]
    ref_logprobs: Float[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]
    advantages: Float[Tensor, "rows"]
    source: Int[Tensor, "rows"]
    weights: Float[Tensor, "rows"]

    def mask_of(self, source: int) -> Bool[Tensor, "rows tokens"]:
        """The tokens in ``mask`` of the rows of one source."""
        return self.mask & (self.source == source)[:, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedLoss:
    """The scalar to minimise and its parts, all of which add up over micro-batches.

    ``penalties`` and ``anchors`` are by name, before their weights. The clip shares are fractions
    of the policy tokens, weighted as the loss is (so under fixed_length they are fractions of
    rows * max_tokens), and carry no gradient.
    """

    total: Float[Tensor, ""]
    policy: Float[Tensor, ""]
    penalties: Mapping[str, Float[Tensor, ""]]
    anchors: Mapping[str, Float[Tensor, ""]]
    clipped_low: Float[Tensor, ""]
    clipped_high: Float[Tensor, ""]


def mixed_loss(
    batch: LossBatch,
    objective: Objective,
    over_vocabulary: Mapping[str, Float[Tensor, "rows tokens"]] = MappingProxyType({}),
) -> MixedLoss:
    """Policy loss on new samples, plus penalties on them, plus divergences on stored ones.

    Equation: see the top of the module. A term with weight 0 adds nothing to ``total``, but its
    value is still reported. ``over_vocabulary`` holds the values of the penalties that see whole
    distributions, by name.

    Raises:
        DataError: values of such a penalty are missing.
    """
    tokens = policy_tokens(batch)
    term = objective.surrogate(tokens)
    total = policy = weighted_sum(term.loss, tokens.mask, batch.weights)
    penalties, anchors = {}, {}
    for name, penalty in objective.penalties.items():
        if isinstance(penalty.penalty, VocabularyPenalty):
            if name not in over_vocabulary:
                raise DataError(
                    f"the penalty {name!r} needs whole distributions, and none were given"
                )
            values = over_vocabulary[name]
        else:
            values = penalty.penalty(tokens)
        penalties[name] = weighted_sum(values, tokens.mask, batch.weights)
        total = _plus(total, penalty.weight, penalties[name])
    for source, (name, anchor) in enumerate(objective.anchors.items(), start=1):
        anchors[name] = anchor_term(batch, anchor.divergence, source=source)
        total = _plus(total, anchor.weight, anchors[name])
    return MixedLoss(
        total=total,
        policy=policy,
        penalties=penalties,
        anchors=anchors,
        clipped_low=_share(term.clipped_low, tokens.mask, batch.weights),
        clipped_high=_share(term.clipped_high, tokens.mask, batch.weights),
    )


def anchor_term(batch: LossBatch, divergence: Divergence, *, source: int = 1) -> Float[Tensor, ""]:
    """The divergence reduced over its stored rows, before the weight of its rehearsal term.

    ``advantages`` are not used, and ``old_logprobs`` only by a divergence that also acts on the
    policy's samples.
    """
    mask = batch.mask_of(source)
    stored = weighted_sum(divergence(_log_ratio(batch, mask)), mask, batch.weights)
    if not isinstance(divergence, PolicyHalf):
        return stored
    mask = batch.mask_of(POLICY)
    ratio = importance_ratio(_masked(batch.logprobs, mask), _masked(batch.old_logprobs, mask))
    values = divergence.on_policy(_log_ratio(batch, mask), ratio)
    return stored + weighted_sum(values, mask, batch.weights)


def policy_tokens(batch: LossBatch) -> PolicyTokens:
    """The policy's rows in the form that terms take; everything else is masked out."""
    mask = batch.mask_of(POLICY)
    return PolicyTokens(
        logprobs=_masked(batch.logprobs, mask),
        old_logprobs=_masked(batch.old_logprobs, mask),
        ref_logprobs=_masked(batch.ref_logprobs, mask),
        mask=mask,
        advantages=torch.where(batch.source == POLICY, batch.advantages, 0.0),
    )


def _plus(total: Float[Tensor, ""], weight: float, value: Float[Tensor, ""]) -> Float[Tensor, ""]:
    # Not 0 * value, which is NaN where the value is infinite.
    return total + weight * value if weight > 0 else total


def _share(
    chosen: Bool[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    weights: Float[Tensor, "rows"],
) -> Float[Tensor, ""]:
    return weighted_sum(chosen.to(weights.dtype), mask, weights)


def _masked(
    values: Float[Tensor, "rows tokens"], mask: Bool[Tensor, "rows tokens"]
) -> Float[Tensor, "rows tokens"]:
    # Mask before anything else is computed: 0 * inf and 0 * NaN are NaN.
    return torch.where(mask, at_least_float32(values), 0.0)


def _log_ratio(batch: LossBatch, mask: Bool[Tensor, "rows tokens"]) -> Float[Tensor, "rows tokens"]:
    return _masked(batch.logprobs, mask) - _masked(batch.ref_logprobs, mask).detach()
