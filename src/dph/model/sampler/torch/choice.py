"""Choosing the next token of every row from its logits and one uniform number."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

# The nucleus: the fewest most likely tokens that together reach a probability.

_PREFIX = 256
"""Tokens that are looked at first: real models' nuclei are smaller, and sorting them is cheap."""


def nucleus(
    probabilities: Float[Tensor, "rows vocabulary"], *, top_p: float
) -> Float[Tensor, "rows vocabulary"]:
    """1 for the fewest most likely tokens that together reach ``top_p``, else 0.

    Source: Holtzman et al., "The curious case of neural text degeneration" (2020), section 3.1.
    Ties are broken in favour of the smaller token id.
    Computed as: everything above the least likely value that is still needed, and as many tokens
    of that value as there is room for; this needs sorted values, not their order. The largest 256
    values come first; all are sorted only for the rows where those do not reach ``top_p``.
    """
    ordered = _largest(probabilities, _PREFIX)
    count, least = _bound(ordered, top_p)
    if ordered.shape[1] < probabilities.shape[1]:
        short = (ordered.sum(dim=-1, dtype=torch.float64) < top_p).nonzero()[:, 0]
        if len(short):
            rows = probabilities.index_select(0, short)
            count[short], least[short] = _bound(_largest(rows, rows.shape[1]), top_p)
    kept = probabilities >= least
    crowded = (kept.sum(dim=-1, keepdim=True) > count).nonzero()[:, 0]
    if len(crowded):
        rows, bound = probabilities[crowded], least[crowded]
        above, tied = rows > bound, rows == bound
        room = count[crowded] - above.sum(dim=-1, keepdim=True)
        kept[crowded] = above | (tied & (tied.cumsum(dim=-1) <= room))
    return kept.to(probabilities.dtype)


def _bound(ordered: Float[Tensor, "rows values"], top_p: float) -> tuple[Tensor, Tensor]:
    """Number of the largest values that are needed, and the smallest of them."""
    before = ordered.cumsum(dim=-1, dtype=torch.float64) - ordered
    count = (before < top_p).sum(dim=-1, keepdim=True).clamp_(min=1)
    return count, ordered.gather(1, count - 1)


def _largest(values: Float[Tensor, "rows vocabulary"], count: int) -> Float[Tensor, "rows count"]:
    """The ``count`` largest values of every row, in descending order."""
    count = min(count, values.shape[1])
    if values.device.type != "cpu":
        return values.topk(count, dim=-1).values
    # NumPy partitions and sorts values alone, several times as fast as torch on a CPU.
    found = values.numpy()
    if count < values.shape[1]:
        found = np.partition(found, values.shape[1] - count, axis=-1)[:, -count:]
    return torch.from_numpy(np.sort(found, axis=-1)[:, ::-1].copy())


_BLOCK = 64


class ChosenTokens(NamedTuple):
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
) -> ChosenTokens:
    """Draw one token a row by inverting its cumulative distribution.

    Equation: token = min { i : sum_{j <= i} p_j > uniform * sum_j p_j }, p = softmax(logits /
    temperature) over the nucleus. A token of probability 0 is never chosen.
    Computed as: one pass of exp in float32, sums of blocks of 64 tokens, the cumulative sum of
    those in float64, then the cumulative sum inside the block that the uniform number falls into;
    all in vocabulary order, so that rounding in one row cannot reorder its tokens.
    Accuracy: a token's probability is exact to about 1e-6 of that of its block, the log-prob to
    float32.
    Limits: ``greedy`` takes the first largest logit and reads neither ``uniforms`` nor ``top_p``.
    """
    scores = logits.float()
    if temperature != 1:
        scores = scores / temperature
    largest = scores.amax(dim=-1, keepdim=True)
    weights = (scores - largest).exp_()
    ends = _block_sums(weights).cumsum(dim=-1, dtype=torch.float64)
    log_total = ends[:, -1].log()
    if greedy:
        tokens = scores.argmax(dim=-1)
    else:
        if top_p < 1:
            weights *= nucleus(weights / ends[:, -1:].float(), top_p=top_p)
            ends = _block_sums(weights).cumsum(dim=-1, dtype=torch.float64)
        tokens = _invert(weights, ends, uniforms)
    chosen = (scores.gather(1, tokens[:, None]) - largest)[:, 0]
    return ChosenTokens(tokens, (chosen - log_total).float())


def _block_sums(
    weights: Float[Tensor, "rows vocabulary"],
) -> Float[Tensor, "rows blocks"]:
    """Sums of every 64 tokens; the last block may be shorter."""
    whole = weights.shape[1] // _BLOCK * _BLOCK
    sums = weights[:, :whole].reshape(len(weights), -1, _BLOCK).sum(dim=-1)
    if whole == weights.shape[1]:
        return sums
    return torch.cat([sums, weights[:, whole:].sum(dim=-1, keepdim=True)], dim=1)


def _invert(
    weights: Float[Tensor, "rows vocabulary"],
    ends: Float[Tensor, "rows blocks"],
    uniforms: Float[Tensor, "rows"],
) -> Int[Tensor, "rows"]:
    """The first token whose cumulative weight exceeds the share ``uniforms`` of the whole."""
    target = uniforms[:, None] * ends[:, -1:]
    # NaN logits end beyond the vocabulary; the clamps let the caller see their NaN log-prob.
    block = torch.searchsorted(ends, target, right=True).clamp_(max=ends.shape[1] - 1)
    before = torch.where(block > 0, ends.gather(1, (block - 1).clamp_(min=0)), 0.0)
    members = block * _BLOCK + torch.arange(_BLOCK, device=weights.device)
    last = weights.shape[1] - 1
    inside = weights.gather(1, members.clamp(max=last)) * (members <= last)
    inner = inside.cumsum(dim=-1, dtype=torch.float64)
    # The block's sum in float32 may exceed the one here, which must stay out of reach.
    rest = torch.minimum(target - before, inner[:, -1:] * (1 - 2.0**-40))
    offset = torch.searchsorted(inner, rest, right=True)
    return (block * _BLOCK + offset)[:, 0].clamp_(max=last)
