"""The entropy bonus: a reward for next-token distributions that stay wide."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class EntropyBonus:
    """Minus the entropy of the policy at the positions of its own samples.

    Equation: -H(pi) = sum over v of pi(v) log pi(v) (Williams & Peng, 1991; A3C, arXiv:1602.01783,
    section 4), so that adding it to a loss raises the entropy.
    Gradient: through the distribution at each position; that the policy also decides which
    positions come about is left out, as it is in TRL and verl.
    Units: nats a token; between -log(vocabulary) and 0.
    Limits: tokens of probability 0 add nothing.
    """

    def over_vocabulary(
        self,
        logprobs: Float[Tensor, "positions vocabulary"],
        _: Float[Tensor, "positions vocabulary"] | None,
        /,
    ) -> Float[Tensor, "positions"]:
        """The value at each position."""
        return (logprobs.exp() * torch.where(logprobs > -torch.inf, logprobs, 0.0)).sum(dim=-1)
