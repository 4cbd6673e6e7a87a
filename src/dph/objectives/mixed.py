"""The whole objective: explore where the model fails, rehearse where it succeeds.

    total = policy + kl_coefficient * penalty + eta * rehearse

(arXiv:2509.07430, section 4.) Every term is a reduction over its own tokens, with its own
denominator: policy and penalty over the policy rows, rehearse over the rehearsal rows.

In the JS definition form rehearse is ``reference_half`` (k3) reduced over the rehearsal rows
plus ``policy_half`` reduced over the policy rows, with the importance ratio to
``old_logprobs``. So the halves balance whatever the numbers of rows, which is the purpose of
the count weights of the paper's equation 16.

Differs from the paper: its code divides both sums by all rows of the batch. Up to an overall
factor that is this loss with eta = eta_fork * rehearsal rows / exploration rows.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dph.divergences import Divergence
from dph.divergences.jensen_shannon_definition import policy_half, reference_half
from dph.divergences.precision import at_least_float32
from dph.errors import SettingsError
from dph.objectives.kl_penalty import kl_penalty
from dph.objectives.policy import clipped_policy_loss, importance_ratio
from dph.objectives.reduction import weighted_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBatch:
    """Some rows (a micro-batch, or all) of an optimizer mini-batch.

    All log-probs are in nats, of completion tokens, at the training temperature. Policy rows
    use ``old_logprobs`` and ``advantages``, and ``ref_logprobs`` only with a KL penalty or the
    JS definition form; rehearsal rows use ``ref_logprobs`` only. What is not used, and all
    that ``mask`` leaves out, may hold anything, NaN included: it reaches no value and no
    gradient.

    ``weights`` come from ``row_weights`` over the *whole mini-batch*, called once for its
    policy rows and once for its rehearsal rows.
    """

    logprobs: Float[Tensor, "rows tokens"]
    old_logprobs: Float[Tensor, "rows tokens"]
    ref_logprobs: Float[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]
    advantages: Float[Tensor, "rows"]
    is_rehearsal: Bool[Tensor, "rows"]
    weights: Float[Tensor, "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedLoss:
    """The scalar to minimise and its parts, all of which add up over micro-batches.

    ``penalty`` and ``rehearse`` come before their coefficients. The clip shares are fractions
    of the policy tokens, weighted as the loss is (so under fixed_length they are fractions of
    rows * max_tokens), and carry no gradient.
    """

    total: Float[Tensor, ""]
    policy: Float[Tensor, ""]
    penalty: Float[Tensor, ""]
    rehearse: Float[Tensor, ""]
    clipped_low: Float[Tensor, ""]
    clipped_high: Float[Tensor, ""]


def mixed_loss(
    batch: LossBatch,
    *,
    clip_low: float,
    clip_high: float,
    kl_coefficient: float = 0.0,
    kl_estimator: Literal["k2", "k3"] = "k3",
    divergence: Divergence | None = None,
    eta: float = 0.0,
    js_definition: bool = False,
) -> MixedLoss:
    """Policy loss on exploration rows plus eta times a divergence on rehearsal rows.

    Equation: see the top of the module. A term whose coefficient is 0 adds nothing to
    ``total``; with eta = 0 and a divergence ``rehearse`` is still reported, with
    kl_coefficient = 0 ``penalty`` is 0 and not computed.

    Raises:
        SettingsError: a coefficient is negative or not finite, eta > 0 without something to
            rehearse with, a divergence together with ``js_definition``, or a bad clip bound
            or estimator.
    """
    _check_coefficients(kl_coefficient, eta, divergence, js_definition)
    policy_mask = batch.mask & ~batch.is_rehearsal[:, None]
    logprobs = _masked(batch.logprobs, policy_mask)
    old_logprobs = _masked(batch.old_logprobs, policy_mask)
    term = clipped_policy_loss(
        logprobs,
        old_logprobs,
        torch.where(batch.is_rehearsal, 0.0, batch.advantages),
        clip_low=clip_low,
        clip_high=clip_high,
    )
    total = policy = weighted_sum(term.loss, policy_mask, batch.weights)
    penalty = rehearse = policy.new_zeros(())
    if kl_coefficient > 0:
        ref_logprobs = _masked(batch.ref_logprobs, policy_mask)
        values = kl_penalty(logprobs, ref_logprobs, estimator=kl_estimator)
        penalty = weighted_sum(values, policy_mask, batch.weights)
        total = total + kl_coefficient * penalty
    if divergence is not None or js_definition:
        rehearse = rehearsal_term(batch, divergence)
        total = total + eta * rehearse if eta > 0 else total
    return MixedLoss(
        total=total,
        policy=policy,
        penalty=penalty,
        rehearse=rehearse,
        clipped_low=_share(term.clipped_low, policy_mask, batch.weights),
        clipped_high=_share(term.clipped_high, policy_mask, batch.weights),
    )


def rehearsal_term(batch: LossBatch, divergence: Divergence | None) -> Float[Tensor, ""]:
    """The divergence reduced over the rehearsal rows: what eta weighs.

    ``None`` is the JS definition form, both halves. ``advantages`` are not used, and
    ``old_logprobs`` only by that form.
    """
    mask = batch.mask & batch.is_rehearsal[:, None]
    log_ratio = _log_ratio(batch, mask)
    if divergence is not None:
        return weighted_sum(divergence(log_ratio), mask, batch.weights)
    stored = weighted_sum(reference_half(log_ratio), mask, batch.weights)
    mask = batch.mask & ~batch.is_rehearsal[:, None]
    ratio = importance_ratio(_masked(batch.logprobs, mask), _masked(batch.old_logprobs, mask))
    values = policy_half(_log_ratio(batch, mask), ratio)
    return stored + weighted_sum(values, mask, batch.weights)


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


def _check_coefficients(
    kl_coefficient: float, eta: float, divergence: Divergence | None, js_definition: bool
) -> None:
    for name, value in (("kl_coefficient", kl_coefficient), ("eta", eta)):
        if not 0 <= value < float("inf"):
            raise SettingsError(f"{name} must be finite and at least 0, got {value}")
    if js_definition and divergence is not None:
        raise SettingsError(
            f"js_definition replaces the divergence, so leave that out; got {divergence!r}"
        )
    if eta > 0 and divergence is None and not js_definition:
        raise SettingsError(f"{eta=} needs a divergence or js_definition to weigh")
