"""KL divergence between distributions of which every probability is known."""

import torch
from jaxtyping import Float
from torch import Tensor


def categorical_kl(
    logprobs: Float[Tensor, "*shape outcomes"], others: Float[Tensor, "*shape outcomes"]
) -> Float[Tensor, "*shape"]:
    """KL(p || q) over the last dimension, from log p and log q, differentiable in both.

    Equation: sum over v of p(v) (log p(v) - log q(v)).
    Units: nats.
    Limits: outcomes with p(v) = 0 add nothing, q(v) = 0 or not; +inf where p(v) > 0 = q(v).

    >>> p, q = torch.tensor([0.5, 0.5, 0.0]).log(), torch.tensor([0.25, 0.25, 0.5]).log()
    >>> categorical_kl(p, q)
    tensor(0.6931)
    """
    # Mask first: 0 * (-inf + inf) is NaN.
    possible = logprobs > -torch.inf
    log_ratio = torch.where(possible, logprobs - others, 0.0)
    return (logprobs.exp() * log_ratio).sum(dim=-1)
