"""Surrogates of the policy gradient: clipped (PPO), flow balance, and those that choose tokens."""

from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dph._base.randomness import generator
from dph.errors import DataError, SettingsError
from dph.loss.divergences.base import at_least_float32
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


@dataclass(frozen=True, slots=True)
class FlowBalance:
    """Squared distance of an answer's likelihood from the value that its advantage asks for.

    Equation: w (l / |y| - A)^2 with l = log pi(y) - log pi_old(y) of the whole answer and
    w = clip(pi(y) / pi_old(y), 1 - clip_low, 1 + clip_high) without gradient. With the advantage
    ``FlowRL`` it is that paper's loss (arXiv:2509.15207): l / |y| - A is its residual delta.
    Every token of an answer has the answer's value, so that ``sequence_mean`` is the paper's mean
    over answers.
    Limits: at pi = pi_old the gradient is -2 A grad log pi(y) / |y|. An answer with A = 0 is held
    where it is. The bounds limit the weight and cut no gradient.
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
        """The loss of every token, and where a bound holds the weight."""
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


# Tokens that make the entropy fall: those whose log-prob and advantage vary together.
#
# Cui et al., "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models"
# (arXiv:2505.22617): under policy gradients the entropy changes by minus the covariance of log-prob
# and advantage, and a few tokens hold nearly all of it.


def token_covariances(tokens: PolicyTokens) -> Float[Tensor, "rows tokens"]:
    """Each token's part of the covariance of log-prob and advantage; -inf outside the mask.

    Equation: (log pi(y_t) - mean log pi) (A_t - mean A), means over all tokens in the mask
    (arXiv:2505.22617, equation 10; the authors' code and verl's ``core_algos``). No gradient.
    """
    mask = tokens.mask
    count = mask.sum().clamp(min=1)
    logprobs = tokens.logprobs.detach()
    advantages = tokens.advantages[:, None].to(logprobs.dtype).expand_as(logprobs)
    means = [torch.where(mask, x, 0.0).sum() / count for x in (logprobs, advantages)]
    return torch.where(mask, (logprobs - means[0]) * (advantages - means[1]), -torch.inf)


def share_of(mask: Bool[Tensor, "rows tokens"], share: float) -> int:
    """Number of tokens in a share of all: rounded down, at least 1, and 0 where there are none."""
    tokens = int(mask.sum())
    return min(tokens, max(int(share * tokens), 1))


def check_share(name: str, share: float) -> None:
    """Refuse a share outside (0, 1].

    Raises:
        SettingsError: it is.
    """
    if not 0 < share <= 1:
        raise SettingsError(f"{name}: share must be above 0 and at most 1, got {share}")


@dataclass(frozen=True, slots=True)
class ClipCov:
    """The clipped surrogate without some tokens, drawn among those of high covariance.

    Equation: the loss of ``clipped_policy_loss``, times 0 at the chosen tokens
    (arXiv:2505.22617, section 4.2, equations 11 and 12). Candidates are the tokens whose
    covariance (``token_covariances``) lies strictly between ``cov_low`` and ``cov_high`` and whose
    ratio is not clipped already; ``share`` of all tokens (rounded down, at least one) are drawn
    among them, all of them where there are fewer. As in the authors' code and verl's
    ``clip_cov``, whose defaults these are.
    Computed as: the draw is made once for a whole mini-batch, with the log-probs at its start.
    Each token has a random number of its own, a function of the seed and its place in the
    mini-batch, and the smallest numbers win: as likely as any draw without repetition, and
    the same however the mini-batch is cut.
    Differs from the paper's code: that draws within each micro-batch.

    Raises:
        SettingsError: a bound or the share is out of range.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    share: float = 2e-4
    cov_low: float = 1.0
    cov_high: float = 5.0

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)
        check_share("clip_cov", self.share)
        if not self.cov_low < self.cov_high:
            raise SettingsError(
                f"clip_cov: cov_low must be below cov_high, got {self.cov_low}, {self.cov_high}"
            )

    def choose(self, tokens: PolicyTokens, seed: int, /) -> Bool[Tensor, "rows tokens"]:
        """The tokens of a whole mini-batch that are left out."""
        term, covariances = self._clipped(tokens), token_covariances(tokens)
        inside = (covariances > self.cov_low) & (covariances < self.cov_high)
        candidates = inside & ~(term.clipped_low | term.clipped_high)
        chosen = torch.zeros_like(candidates)
        places = candidates.nonzero().tolist()
        rows, width = tokens.mask.shape
        # A row's numbers do not depend on how far it is padded: more only come at the end.
        numbers = [generator(seed, "clip_cov", row).random(width) for row in range(rows)]
        places.sort(key=lambda place: numbers[place[0]][place[1]])
        for row, column in places[: share_of(tokens.mask, self.share)]:
            chosen[row, column] = True
        return chosen

    def __call__(self, tokens: PolicyTokens) -> PolicyTerm:
        """The loss of every token, and where a bound of the ratio is active."""
        if tokens.chosen is None:
            raise DataError(
                "clip_cov chooses tokens among a whole mini-batch, and none were chosen"
            )
        term = self._clipped(tokens)
        return PolicyTerm(
            loss=torch.where(tokens.chosen, 0.0, term.loss),
            clipped_low=term.clipped_low,
            clipped_high=term.clipped_high,
        )

    def _clipped(self, tokens: PolicyTokens) -> PolicyTerm:
        return clipped_policy_loss(
            tokens.logprobs,
            tokens.old_logprobs,
            tokens.advantages,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
        )


@dataclass(frozen=True, slots=True)
class KLCov:
    """Distance to the old policy at the tokens of highest covariance.

    Equation: |log pi(y_t) - log pi_old(y_t)| at the ``share`` of tokens (rounded down, at least
    one) whose covariance (``token_covariances``) is highest, 0 at all others
    (arXiv:2505.22617, section 4.2, equations 13 and 14). The absolute value stands in the
    authors' code and in verl's ``kl_cov``; their policy loss beside it has no bounds on the ratio
    (``UnclippedSurrogate``).
    Computed as: the choice is made once for a whole mini-batch, with the log-probs at its start.
    Units: nats a token.
    Limits: the value is 0 as long as pi = pi_old, in the first mini-batch after a rollout. The
    gradient is 0 there where both are equal to the last bit; else it has the sign of rounding.
    Differs from the paper's code: that chooses within each micro-batch.

    Raises:
        SettingsError: ``share`` is not above 0 and at most 1.
    """

    share: float = 2e-4

    def __post_init__(self) -> None:
        check_share("kl_cov", self.share)

    def choose(self, tokens: PolicyTokens, _: int, /) -> Bool[Tensor, "rows tokens"]:
        """The tokens of a whole mini-batch that are held; nothing is drawn."""
        covariances = token_covariances(tokens).flatten()
        # A stable sort: which of two equal tokens comes first must not depend on anything else.
        order = covariances.argsort(descending=True, stable=True)
        chosen = torch.zeros_like(covariances, dtype=torch.bool)
        chosen[order[: share_of(tokens.mask, self.share)]] = True
        return chosen.view_as(tokens.mask)

    def __call__(self, tokens: PolicyTokens) -> Float[Tensor, "rows tokens"]:
        """Nats at the chosen tokens, 0 elsewhere."""
        if tokens.chosen is None:
            raise DataError("kl_cov chooses tokens among a whole mini-batch, and none were chosen")
        distance = at_least_float32(tokens.logprobs) - at_least_float32(tokens.old_logprobs)
        return torch.where(tokens.chosen, distance.abs(), 0.0)
