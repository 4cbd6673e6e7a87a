"""Choosing the next token of every row from its logits and one uniform number."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.model.sampler.torch.nucleus import nucleus

_BLOCK = 64


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
    return Choice(tokens, (chosen - log_total).float())


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
