"""Attention of rows that share prompts: each prompt's keys and values are read once for all."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


class Part(NamedTuple):
    """Attention over some of the keys: the mixed values and the log of the softmax's sum (nats)."""

    out: Float[Tensor, "batch heads queries value"]
    log_sum: Float[Tensor, "batch heads queries"]


def attend(
    query: Float[Tensor, "batch heads queries key"],
    key: Float[Tensor, "batch heads tokens key"],
    value: Float[Tensor, "batch heads tokens value"],
    *,
    scaling: float,
    softcap: float | None = None,
    bias: Float[Tensor, "_ 1 1 tokens"] | None = None,
) -> Part:
    """Attention of every query over all tokens, with what is needed to merge it with other parts.

    Equation: s = scaling * query key^T; where there is a softcap c, s = c tanh(s / c); s += bias;
    out = softmax(s) value, log_sum = log sum exp(s).
    Computed as: torch's flash kernel on a CPU, which keeps the scores in cache; matrix products
    elsewhere.
    """
    if softcap is None and _flash_takes(query, value):
        mask = None if bias is None else bias.to(query.dtype)
        out, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, False, attn_mask=mask, scale=scaling
        )
        return Part(out, log_sum)
    scores = (query @ key.transpose(-1, -2)).float() * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if bias is not None:
        scores = scores + bias
    log_sum = scores.logsumexp(dim=-1)
    return Part((scores - log_sum[..., None]).exp().to(value.dtype) @ value, log_sum)


def merge(first: Part, second: Part) -> Float[Tensor, "batch heads queries value"]:
    """Attention over the keys of both parts.

    Equation: out = w first.out + (1 - w) second.out, w = 1 / (1 + exp(second.log_sum -
    first.log_sum)).
    Computed as: exp of a contiguous tensor, not sigmoid, which rounds the last elements of a
    tensor differently on a CPU: a row's tokens would depend on its place in the batch.
    """
    gap = (second.log_sum - first.log_sum).contiguous()
    weight = gap.exp_().add_(1).reciprocal_()
    return torch.lerp(second.out, first.out, weight[..., None].to(first.out.dtype))


def attend_causally(
    query: Float[Tensor, "batch heads tokens key"],
    key: Float[Tensor, "batch kv_heads tokens key"],
    value: Float[Tensor, "batch kv_heads tokens value"],
    *,
    scaling: float,
    softcap: float | None = None,
) -> Float[Tensor, "batch heads tokens value"]:
    """Attention of every token over itself and those before it."""
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    if softcap is None:
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling)
    scores = torch.tanh((query @ key.transpose(-1, -2)).float() * (scaling / softcap)) * softcap
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu_(1)
    return scores.masked_fill_(later, -torch.inf).softmax(dim=-1).to(value.dtype) @ value


class Sharing(NamedTuple):
    """Which prompt each row reads.

    ``slots`` is None where every prompt has ``width`` rows; else it gives each row a place in a
    table of ``prompts`` x ``width``, and ``sources`` gives each place of the table a row.
    """

    prompts: int
    width: int
    slots: Int[Tensor, "rows"] | None = None
    sources: Int[Tensor, "places"] | None = None


def sharing_of(prompt_of_row: Int[Tensor, "rows"], *, prompts: int) -> Sharing:
    """The sharing of rows that are sorted by prompt.

    Widths are even: a CPU kernel rounds a single last query differently from the same query beside
    another, and a row's tokens would depend on how many others are left.
    """
    counts = torch.bincount(prompt_of_row, minlength=prompts)
    width = -(-int(counts.max()) // 2) * 2
    if width * prompts == len(prompt_of_row):
        return Sharing(prompts, width)
    first = counts.cumsum(0) - counts
    rows = torch.arange(len(prompt_of_row), device=prompt_of_row.device)
    slots = prompt_of_row * width + rows - first[prompt_of_row]
    sources = slots.new_zeros(prompts * width).index_copy_(0, slots, rows)
    return Sharing(prompts, width, slots, sources)


def attend_prompts(
    query: Float[Tensor, "rows kv_heads repeats key"],
    key: Float[Tensor, "prompts kv_heads tokens key"],
    value: Float[Tensor, "prompts kv_heads tokens value"],
    sharing: Sharing,
    *,
    scaling: float,
    softcap: float | None = None,
    bias: Float[Tensor, "prompts 1 1 tokens"] | None = None,
) -> Part:
    """Attention of every row over the whole of its prompt.

    Computed as: one product for each prompt and key-value head, with the queries of all its rows
    and of all heads that share the key-value head side by side.
    """
    prompts, width = sharing.prompts, sharing.width
    _, heads, repeats, size = query.shape
    if sharing.sources is not None:
        query = query.index_select(0, sharing.sources)
    folded = query.view(prompts, width, heads, repeats, size).transpose(1, 2)
    part = attend(
        folded.reshape(prompts, heads, width * repeats, size),
        key,
        value,
        scaling=scaling,
        softcap=softcap,
        bias=bias,
    )
    shape = (prompts, heads, width, repeats)
    out = part.out.reshape(*shape, -1).transpose(1, 2).reshape(prompts * width, heads, repeats, -1)
    log_sum = part.log_sum.reshape(shape).transpose(1, 2).reshape(prompts * width, heads, repeats)
    if sharing.slots is not None:
        out, log_sum = out.index_select(0, sharing.slots), log_sum.index_select(0, sharing.slots)
    return Part(out, log_sum)


def _flash_takes(query: Tensor, value: Tensor) -> bool:
    return (
        query.device.type == "cpu"
        and query.dtype in (torch.float32, torch.bfloat16)
        and query.shape[-1] == value.shape[-1]
    )
