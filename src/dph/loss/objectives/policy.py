"""The clipped policy-gradient loss (PPO), with separate bounds below and above."""

from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.divergences.elementwise import at_least_float32
from dph.loss.objectives.terms import PolicyTerm, PolicyTokens

RATIO_LOG_BOUND: Final = 20.0
"""Nats. Above it the importance ratio goes on along its tangent; exp(20) = 4.9e8."""


def importance_ratio(
    logprobs: Float[Tensor, "*shape"], old_logprobs: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Return pi / pi_old from log-probs, with a gradient to ``logprobs`` only.

    Overflow: exact up to a log-ratio of 20. Above, exp(20) (1 + log-ratio - 20): continuous,
    with the constant gradient exp(20), so that neither the value nor the pull explodes or
    vanishes.
    """
    log_ratio = at_least_float32(logprobs) - at_least_float32(old_logprobs).detach()
    # relu, not clamp: at the bound itself exactly one of the two factors has a gradient.
    excess = torch.relu(log_ratio - RATIO_LOG_BOUND)
    return log_ratio.clamp(max=RATIO_LOG_BOUND).exp() * (1.0 + excess)


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
    Overflow: for A < 0 no bound holds r from above (there is no dual clip here). See
    ``importance_ratio``: finite loss for log-ratios up to 1e29 in float32, gradient at most
    |A| exp(20) a token.

    Padding must hold finite numbers (``mixed_loss`` sees to that).

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
    """Refuse bounds that no ratio can have.

    Raises:
        SettingsError: ``clip_low`` outside [0, 1], or ``clip_high`` below 0.
    """
    if not 0 <= clip_low <= 1:
        raise SettingsError(f"clip_low must lie in [0, 1], got {clip_low}")
    if not clip_high >= 0:
        raise SettingsError(f"clip_high must be at least 0, got {clip_high}")


# The policy-gradient loss without bounds on the ratio.


@dataclass(frozen=True, slots=True)
class UnclippedSurrogate:
    """Minus ratio times advantage: nothing holds the policy near the one that drew the samples.

    Equation: -r A, r = pi / pi_old (arXiv:1707.06347, equation 6). KL-Cov builds on it.
    Overflow: as ``importance_ratio``.
    """

    def __call__(self, tokens: PolicyTokens) -> PolicyTerm:
        """The loss of every token; no bound is active anywhere."""
        ratio = importance_ratio(tokens.logprobs, tokens.old_logprobs)
        never = torch.zeros_like(tokens.mask)
        loss = -tokens.advantages.to(ratio.dtype)[:, None] * ratio
        return PolicyTerm(loss=loss, clipped_low=never, clipped_high=never)
