"""Attention and its gradient given the log of the softmax's sum, which lets parts be merged.

A kernel sees some of the keys that its queries attend to. With ``out`` and ``log_sum`` of the
*whole* attention, ``backward`` gives the gradient of that part only: the weights of its keys
are exp(score - log_sum), and the gradient of a score needs of the other keys only
sum(grad_out * out). (As in ring attention, Liu et al., arXiv:2310.01889.)
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

_cpu_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_cpu_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Scoring(NamedTuple):
    """Weighing of keys by queries: scores are scaling * query key^T, capped, biased, masked."""

    scaling: float
    softcap: float | None = None
    causal: bool = False
    bias: Float[Tensor, "batch 1 1 keys"] | None = None


QueryKeyValue = tuple[Tensor, Tensor, Tensor]


class AttentionPart(NamedTuple):
    """Attention over some of the keys: the mixed values and the log of the softmax's sum (nats)."""

    out: Float[Tensor, "batch heads queries value"]
    log_sum: Float[Tensor, "batch heads queries"]


class FlashCpu:
    """torch's flash kernel for the CPU: scores never leave the cache."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> AttentionPart:
        bias = None if scoring.bias is None else scoring.bias.to(query.dtype)
        part: tuple[Tensor, Tensor] = _cpu_forward(
            query, key, value, 0.0, scoring.causal, attn_mask=bias, scale=scoring.scaling
        )
        return AttentionPart(*part)

    def backward(
        self, grad: Tensor, tensors: QueryKeyValue, part: AttentionPart, scoring: Scoring
    ) -> QueryKeyValue:
        """The gradients of query, key and value through the part of ``part.out`` that is theirs."""
        bias = None if scoring.bias is None else scoring.bias.to(grad.dtype)
        grads: QueryKeyValue = _cpu_backward(
            grad, *tensors, *part, 0.0, scoring.causal, attn_mask=bias, scale=scoring.scaling
        )
        return grads


class Explicit:
    """Matrix products and a softmax: every device, dtype and softcap; scores are not kept."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> AttentionPart:
        scores, _ = _scores(query, key, scoring)
        log_sum = scores.logsumexp(dim=-1)
        weights = scores.sub_(log_sum[..., None]).exp_()
        return AttentionPart(weights.to(value.dtype) @ value, log_sum)

    def backward(
        self, grad: Tensor, tensors: QueryKeyValue, part: AttentionPart, scoring: Scoring
    ) -> QueryKeyValue:
        query, key, value = tensors
        scores, capped = _scores(query, key, scoring)
        weights = scores.sub_(part.log_sum[..., None]).exp_()
        grad_value = weights.to(grad.dtype).transpose(-1, -2) @ grad
        through_others = (grad * part.out).sum(dim=-1, keepdim=True, dtype=weights.dtype)
        grad_scores = (grad @ value.transpose(-1, -2)).to(weights.dtype)
        grad_scores.sub_(through_others).mul_(weights).mul_(scoring.scaling)
        if capped is not None:
            grad_scores.mul_(1 - capped.square())  # the slope of the cap
        grad_scores = grad_scores.to(query.dtype)
        return grad_scores @ key, grad_scores.transpose(-1, -2) @ query, grad_value


Kernel = FlashCpu | Explicit
"""Attention of [batch heads queries size] over [batch heads keys size], of as many heads."""


def _scores(query: Tensor, key: Tensor, scoring: Scoring) -> tuple[Tensor, Tensor | None]:
    """Scores in at least float32, and their tanh if there is a cap."""
    scores = query @ key.transpose(-1, -2)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).mul_(scoring.scaling)
    capped = None
    if scoring.softcap is not None:
        capped = scores.div_(scoring.softcap).tanh_()
        scores = capped * scoring.softcap
    if scoring.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu_(1)
        scores.masked_fill_(later, -torch.inf)
    if scoring.bias is not None:
        scores.add_(scoring.bias)
    return scores, capped


def kernel_for(query: Tensor, value: Tensor, *, softcap: float | None) -> Kernel:
    """The fastest kernel that takes these inputs."""
    if (
        softcap is None
        and query.device.type == "cpu"
        and query.dtype in (torch.float32, torch.bfloat16)
        and query.shape[-1] == value.shape[-1]
    ):
        return FlashCpu()
    return Explicit()


# Attention over some of the keys and over the others, merged into attention over all of them.
#
# Both ways weigh by w = 1 / (1 + exp(second.log_sum - first.log_sum)) and differ in the last bit
# of a few numbers: `merge_evenly` rounds every element alike, `merge` takes fewer kernel calls.


def merge(first: AttentionPart, second: AttentionPart) -> AttentionPart:
    """Attention over the keys of both parts, which can be merged with others again.

    Equation: log_sum = logaddexp(first.log_sum, second.log_sum), out = exp(first.log_sum - log_sum)
    first.out + exp(second.log_sum - log_sum) second.out.
    """
    weight = torch.sigmoid(first.log_sum - second.log_sum)[..., None].to(first.out.dtype)
    return AttentionPart(
        torch.lerp(second.out, first.out, weight), torch.logaddexp(second.log_sum, first.log_sum)
    )


def merge_evenly(
    first: AttentionPart, second: AttentionPart
) -> Float[Tensor, "batch heads queries value"]:
    """The mixed values over the keys of both parts, the same wherever a row stands in its batch.

    Equation: out = w first.out + (1 - w) second.out, w = 1 / (1 + exp(second.log_sum -
    first.log_sum)).
    Computed as: exp of a contiguous tensor, not sigmoid, which rounds the last elements of a
    tensor differently on a CPU: a row's tokens would depend on its place in the batch.
    """
    gap = (second.log_sum - first.log_sum).contiguous()
    weight = gap.exp_().add_(1).reciprocal_()
    return torch.lerp(second.out, first.out, weight[..., None].to(first.out.dtype))


# FlashAttention of torch for packed sequences: one call for any number of segments of any lengths.
#
# Public as `torch.nn.attention.varlen` from torch 2.10, without its gradient given merged log-sums;
# the operators behind it exist from 2.8. They are called without dropout, so the random state that
# the backward pass takes is never read.


class Segments(NamedTuple):
    """Places of packed queries and keys; the queries of a segment see the keys of that segment.

    Both tables are int32, on the device: where each segment begins and, last, where all end. There
    may be fewer key-value heads than query heads.
    """

    queries: Int[Tensor, "segments+1"]
    keys: Int[Tensor, "segments+1"]
    most_queries: int
    """Queries of the longest segment."""
    most_keys: int


class FlashPart(NamedTuple):
    """Attention over the keys of some segments; log-sums (nats) have the kernel's own layout."""

    out: Float[Tensor, "queries heads size"]
    log_sum: Float[Tensor, "heads queries"]
    random: tuple[Tensor, Tensor]
    """State for the backward pass, which does not read it."""


def takes_flash(query: Tensor, value: Tensor, *, softcap: float | None) -> bool:
    """True if `flash` computes attention of these tensors: 16 bits on CUDA, without a softcap.

    The kernel is written for GPUs from Ampere on, and for heads of up to 256.
    """
    size = query.shape[-1]
    return (
        value.device.type == "cuda"
        and softcap is None
        and value.dtype in (torch.bfloat16, torch.float16)
        and size == value.shape[-1]
        and size % 8 == 0
        and size <= 256
        and torch.cuda.get_device_capability(value.device) >= (8, 0)
    )


def flash(
    query: Float[Tensor, "queries heads size"],
    key: Float[Tensor, "keys kv_heads size"],
    value: Float[Tensor, "keys kv_heads size"],
    segments: Segments,
    *,
    scaling: float,
    causal: bool = False,
    used: Int[Tensor, "segments"] | None = None,
) -> FlashPart:
    """Attention within each segment, in one kernel call, of packed tensors of 16 bits on CUDA.

    With ``causal`` a segment's last query sees all of its keys, the one before all but the last ...
    ``used`` (int32) says how many of the first keys of each segment there are: a table on the
    device that may change between two replays of a graph.
    """
    out, log_sum, state, unused, _ = torch.ops.aten._flash_attention_forward(
        query, key, value, *segments, 0.0, causal, False, scale=scaling, seqused_k=used
    )
    return FlashPart(out, log_sum, (state, unused))


def flash_backward(
    grad: Float[Tensor, "queries heads size"],
    query: Float[Tensor, "queries heads size"],
    key: Float[Tensor, "keys kv_heads size"],
    value: Float[Tensor, "keys kv_heads size"],
    part: FlashPart,
    segments: Segments,
    *,
    scaling: float,
    causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value through the part of ``part.out`` that is theirs.

    ``part`` is the whole attention if several parts were merged (see the top of this file).
    """
    grads: tuple[Tensor, Tensor, Tensor] = torch.ops.aten._flash_attention_backward(
        grad,
        query,
        key,
        value,
        part.out,
        part.log_sum,
        *segments,
        0.0,
        causal,
        *part.random,
        scale=scaling,
    )
    return grads
