"""Choosing the next token of every row from its logits and one uniform number."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


class Choice(NamedTuple):
    """The chosen tokens and their full-vocabulary log-probs (nats) at the temperature."""

    tokens: Int[Tensor, "rows"]
    logprobs: Float[Tensor, "rows"]


def choose(
    logits: Float[Tensor, "rows vocabulary"],
    uniforms: Float[Tensor, "rows"],
    *,
    temperature: float,
    top_p: float = 1.0,
    greedy: bool = False,
) -> Choice:
    """Draw one token a row by inverting its cumulative distribution.

    Equation: token = min { i : sum_{j <= i} p_j > uniform * sum_j p_j }, p = softmax(logits /
    temperature) over the nucleus. A token of probability 0 is never chosen.
    Computed as: log-softmax in float32, cumulative sums in float64, in vocabulary order, so that
    rounding in one row cannot reorder its tokens.
    Limits: ``greedy`` takes the first largest logit and reads neither ``uniforms`` nor ``top_p``.
    """
    table = torch.log_softmax(logits.float() / temperature, dim=-1)
    if greedy:
        tokens = table.argmax(dim=-1)
    else:
        probabilities = table.exp()
        if top_p < 1:
            probabilities = probabilities * nucleus(probabilities, top_p=top_p)
        cumulative = probabilities.cumsum(dim=-1, dtype=torch.float64)
        target = uniforms[:, None] * cumulative[:, -1:]
        # NaN logits end beyond the vocabulary; the clamp lets the caller see their NaN log-prob.
        tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]
        tokens = tokens.clamp_(max=table.shape[-1] - 1)
    return Choice(tokens, table.gather(1, tokens[:, None])[:, 0])


def nucleus(
    probabilities: Float[Tensor, "rows vocabulary"], *, top_p: float
) -> Float[Tensor, "rows vocabulary"]:
    """1 for the fewest most likely tokens that together reach ``top_p``, else 0.

    Source: Holtzman et al., "The curious case of neural text degeneration" (2020), section 3.1.
    Ties are broken in favour of the smaller token id.
    Computed as: everything above the least likely value that is still needed, and as many tokens
    of that value as there is room for; this needs sorted values, not their order.
    """
    ordered = _descending(probabilities)
    before = ordered.cumsum(dim=-1, dtype=torch.float64) - ordered
    count = (before < top_p).sum(dim=-1, keepdim=True).clamp_(min=1)
    least = ordered.gather(1, count - 1)
    above, tied = probabilities > least, probabilities == least
    room = count - above.sum(dim=-1, keepdim=True)
    return (above | (tied & (tied.cumsum(dim=-1) <= room))).to(probabilities.dtype)


def _descending(values: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
    if values.device.type != "cpu":
        return values.sort(dim=-1, descending=True).values
    # NumPy sorts values alone, 20 times as fast as torch on a CPU (256 rows of 350).
    return torch.from_numpy(np.sort(values.numpy(), axis=-1)[:, ::-1].copy())
