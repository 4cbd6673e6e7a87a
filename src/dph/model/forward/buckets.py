"""Log-probs of some tokens at each position, and of all others together."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def bucket_logprobs(
    table: Float[Tensor, "positions vocabulary"], ids: Int[Tensor, "positions chosen"]
) -> Float[Tensor, "positions chosen+1"]:
    """The log-probs of ``ids``, and at the end the log of the mass on every other token.

    Equation: log pi(i) for each id; log sum of pi(v) over the v that are no id.
    Computed as: the sum over the others themselves, in log space. 1 - sum of the chosen is
    rounding alone once the rest is below eps: in float32 a rest of 1e-8 would come out as 0.
    An id may stand several times (padding): it counts once in the rest.
    Units: nats.
    Limits: -inf, with gradient 0, where there is no other token.
    Accuracy: that of a log-softmax, whatever the size of the rest.
    """
    others = table.scatter(-1, ids, -torch.inf)
    # logsumexp of nothing but -inf has a gradient of NaN.
    empty = others.amax(dim=-1, keepdim=True) == -torch.inf
    rest = torch.logsumexp(torch.where(empty, 0.0, others), dim=-1, keepdim=True)
    return torch.cat([table.gather(-1, ids), torch.where(empty, -torch.inf, rest)], dim=-1)
