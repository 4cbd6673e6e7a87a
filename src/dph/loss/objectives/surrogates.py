"""Surrogates of the policy gradient: clipped (PPO), unclipped, and flow balance."""

from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.divergences.base import at_least_float32
from dph.loss.objectives.terms import PolicyTerm, PolicyTokens

RATIO_LOG_BOUND: Final = 20.0
"""Nats. Above it the importance ratio continues along its tangent; exp(20) = 4.9e8."""


def importance_ratio(
    logprobs: Float[Tensor, "*shape"], old_logprobs: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Return pi / pi_old from log-probs, with a gradient to ``logprobs`` only.

    Overflow: exact up to a log-ratio of 20. Above, exp(20) (1 + log-ratio - 20): continuous,
    with the constant gradient exp(20), so that neither the value nor the pull explodes or
    vanishes.
    """
    log_ratio = at_least_float32(logprobs) - at_least_float32(old_logprobs).detach()
    # Not clamp, whose gradient at its very bound is 1 or 0 by torch's release: here it is exp's.
    above = log_ratio > RATIO_LOG_BOUND
    excess = torch.where(above, log_ratio - RATIO_LOG_BOUND, 0.0)
    return torch.where(above, RATIO_LOG_BOUND, log_ratio).exp() * (1.0 + excess)


def clipped_policy_loss(
    logprobs: Float[Tensor, "rows tokens"],
    old_logprobs: Float[Tensor, "rows tokens"],
    advantages: Float[Tensor, "rows"],
    *,
    clip_low: float,
    clip_high: float,
) -> PolicyTerm:
    """Clipped surrogate loss of every token.

    Equation: -min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), r = pi / pi_old
    (arXiv:1707.06347, equation 7; separate bounds: DAPO, arXiv:2503.14476, equation 8).
    Computed as: -A r, where r is replaced by the bound that is active. For A > 0 that is
    1 + clip_high once r > 1 + clip_high; for A < 0 it is 1 - clip_low once r < 1 - clip_low.
    Limits: the gradient is exactly 0 where a bound is active, and exactly -A r grad log pi
    elsewhere, the bound itself included. For A > 0 and r -> 0 it fades with r.
    Overflow: for A < 0 no bound limits r from above (there is no dual clip here). See
    ``importance_ratio``: finite loss for log-ratios up to 1e29 in float32, gradient at most
    |A| exp(20) a token.

    Padding must hold finite numbers (``mixed_loss`` ensures it).

    Raises:
        SettingsError: ``clip_low`` outside [0, 1], or ``clip_high`` below 0.
    """
    check_bounds(clip_low, clip_high)
    ratio = importance_ratio(logprobs, old_logprobs)
    advantage = advantages.to(ratio.dtype)[:, None]
    clipped_low = (advantage < 0) & (ratio < 1 - clip_low)
    clipped_high = (advantage > 0) & (ratio > 1 + clip_high)
    ratio = torch.where(clipped_low, 1 - clip_low, ratio)
    ratio = torch.where(clipped_high, 1 + clip_high, ratio)
    return PolicyTerm(loss=-advantage * ratio, clipped_low=clipped_low, clipped_high=clipped_high)


@dataclass(frozen=True, slots=True)
class ClippedSurrogate:
    """``clipped_policy_loss`` as a term of the loss.

    Raises:
        SettingsError: ``clip_low`` outside [0, 1], or ``clip_high`` below 0.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)

    def __call__(self, tokens: PolicyTokens) -> PolicyTerm:
        """The loss of every token, and where a bound is active."""
        return clipped_policy_loss(
            tokens.logprobs,
            tokens.old_logprobs,
            tokens.advantages,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
        )


def check_bounds(clip_low: float, clip_high: float) -> None:
    if not 0 <= clip_low <= 1:
        raise SettingsError(f"clip_low must lie in [0, 1], got {clip_low}")
    if not clip_high >= 0:
        raise SettingsError(f"clip_high must be at least 0, got {clip_high}")


@dataclass(frozen=True, slots=True)
class UnclippedSurrogate:
    """Minus ratio times advantage, without a bound on the step away from the sampling policy.

    Equation: -r A, r = pi / pi_old (arXiv:1707.06347, equation 6).
    Overflow: as ``importance_ratio``.
    """

    def __call__(self, tokens: PolicyTokens) -> PolicyTerm:
        """The loss of every token; no bound is active anywhere."""
        ratio = importance_ratio(tokens.logprobs, tokens.old_logprobs)
        never = torch.zeros_like(tokens.mask)
        loss = -tokens.advantages.to(ratio.dtype)[:, None] * ratio
        return PolicyTerm(loss=loss, clipped_low=never, clipped_high=never)


@dataclass(frozen=True, slots=True)
class FlowBalance:
    """Squared distance of an answer's likelihood from the target that its advantage sets.

    Equation: w (l / |y| - A)^2 with l = log pi(y) - log pi_old(y) of the whole answer and
    w = clip(pi(y) / pi_old(y), 1 - clip_low, 1 + clip_high) without gradient. With the advantage
    ``FlowRL`` it is that paper's loss (arXiv:2509.15207): l / |y| - A is its residual delta.
    Every token of an answer has the answer's value, so that ``sequence_mean`` is the paper's mean
    over answers.
    Limits: at pi = pi_old the gradient is -2 A grad log pi(y) / |y|. An answer with A = 0 keeps its
    likelihood. The bounds limit the weight and cut no gradient.
    Overflow: quadratic in l / |y|; the weight is at most 1 + clip_high.
    Differs from the authors' code: it computes the bounded weight and multiplies with the unbounded
    one. verl's recipe of it bounds the weight at 10, or that of the mean log-ratio a token.

    Raises:
        SettingsError: ``clip_low`` outside [0, 1], or ``clip_high`` below 0.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)

    def __call__(self, tokens: PolicyTokens) -> PolicyTerm:
        """The loss of every token, and where a bound limits the weight."""
        change = at_least_float32(tokens.logprobs) - at_least_float32(tokens.old_logprobs).detach()
        moved = change.sum(-1)  # both are 0 outside the mask
        ratio = moved.detach().exp()
        weight = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        delta = moved / tokens.mask.sum(-1).clamp(min=1) - tokens.advantages.to(moved.dtype)
        return PolicyTerm(
            loss=_on_tokens(weight * delta.square(), tokens),
            clipped_low=_on_tokens(ratio < 1 - self.clip_low, tokens),
            clipped_high=_on_tokens(ratio > 1 + self.clip_high, tokens),
        )


def _on_tokens(of_rows: Tensor, tokens: PolicyTokens) -> Tensor:
    return of_rows[:, None].expand_as(tokens.mask)
