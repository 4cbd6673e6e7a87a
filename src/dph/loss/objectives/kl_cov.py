"""KL-Cov: the few tokens of highest covariance are held near the policy that drew them."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dph.errors import DataError
from dph.loss.divergences.precision import at_least_float32
from dph.loss.objectives.covariance import check_share, share_of, token_covariances
from dph.loss.objectives.terms import PolicyTokens


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
    Limits: value and gradient are 0 as long as pi = pi_old: in the first mini-batch after a
    rollout it does nothing, and with one mini-batch a rollout it never does.
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
            raise DataError("kl_cov chooses among a whole mini-batch, and nothing was chosen")
        distance = at_least_float32(tokens.logprobs) - at_least_float32(tokens.old_logprobs)
        return torch.where(tokens.chosen, distance.abs(), 0.0)
