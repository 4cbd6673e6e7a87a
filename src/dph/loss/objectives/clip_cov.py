"""Clip-Cov: a few tokens of high covariance are left out of the policy loss."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from dph._base.randomness import generator
from dph.errors import DataError, SettingsError
from dph.loss.objectives.covariance import check_share, share_of, token_covariances
from dph.loss.objectives.policy import check_bounds, clipped_policy_loss
from dph.loss.objectives.terms import PolicyTerm, PolicyTokens


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
            raise DataError("clip_cov chooses among a whole mini-batch, and nothing was chosen")
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
