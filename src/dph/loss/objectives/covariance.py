"""Which tokens make the entropy fall: those whose log-prob and advantage vary together.

Cui et al., "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models"
(arXiv:2505.22617): under policy gradients the entropy changes by minus the covariance of log-prob
and advantage, and a few tokens hold nearly all of it.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.objectives.terms import PolicyTokens


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
    """How many tokens a share of all is: rounded down, at least 1, and 0 where there is none."""
    tokens = int(mask.sum())
    return min(tokens, max(int(share * tokens), 1))


def check_share(name: str, share: float) -> None:
    """Refuse a share outside (0, 1].

    Raises:
        SettingsError: it is.
    """
    if not 0 < share <= 1:
        raise SettingsError(f"{name}: share must be above 0 and at most 1, got {share}")
