"""The policy-gradient loss without bounds on the ratio."""

from dataclasses import dataclass

import torch

from dph.loss.objectives.policy import importance_ratio
from dph.loss.objectives.terms import PolicyTerm, PolicyTokens


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
