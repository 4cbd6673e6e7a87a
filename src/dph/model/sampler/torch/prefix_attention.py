"""Attention of rows that share prompts: each prompt's keys and values are read once for all."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from dph.model.attention.kernels import Part, Scoring, kernel_for

LEAST_QUERIES = 4
"""CPU kernels round one to three queries, and three that are left over, differently from the same
queries beside others: a row's tokens would depend on how many others are left."""


def attend(
    query: Float[Tensor, "batch heads queries key"],
    key: Float[Tensor, "batch heads tokens key"],
    value: Float[Tensor, "batch heads tokens value"],
    scoring: Scoring,
) -> Part:
    """Attention of every query over all tokens, as a part that can be merged with others.

    Computed as: the kernels that masks can be added to, because prompts are padded.
    """
    return kernel_for(query, value, softcap=scoring.softcap).forward(query, key, value, scoring)


def keep_token(
    kept: Float[Tensor, "rows heads columns size"],
    new: Float[Tensor, "rows heads size"],
    column: int | Int[Tensor, "1"],
) -> None:
    """Write every row's newest token; a ``column`` that changes in place is a tensor."""
    if isinstance(column, int):
        kept[:, :, column] = new
    else:
        kept.index_copy_(2, column, new[:, :, None])


def attend_causally(
    query: Float[Tensor, "batch heads queries key"],
    key: Float[Tensor, "batch kv_heads tokens key"],
    value: Float[Tensor, "batch kv_heads tokens value"],
    *,
    scaling: float,
    softcap: float | None = None,
) -> Float[Tensor, "batch heads queries value"]:
    """Attention of the last ``queries`` tokens, each over itself and those before it."""
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    first = key.shape[2] - query.shape[2]
    if softcap is None and not first:
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling)
    later = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    later = later.triu_(1 + first)
    if softcap is None:
        mask = query.new_zeros(later.shape).masked_fill_(later, -torch.inf)
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
    scores = torch.tanh((query @ key.transpose(-1, -2)).float() * (scaling / softcap)) * softcap
    return scores.masked_fill_(later, -torch.inf).softmax(dim=-1).to(value.dtype) @ value


class PromptTable(NamedTuple):
    """Which prompt each row reads, as a table of prompts and their rows.

    ``slots`` is None where every prompt has ``width`` rows; else it gives each row a place in a
    table of ``prompts`` x ``width``, and ``sources`` gives each place of the table a row.
    """

    prompts: int
    width: int
    slots: Int[Tensor, "rows"] | None = None
    sources: Int[Tensor, "places"] | None = None


def prompt_table(prompt_of_row: Int[Tensor, "rows"], *, prompts: int) -> PromptTable:
    """The table of rows that are sorted by prompt."""
    counts = torch.bincount(prompt_of_row, minlength=prompts)
    width = int(counts.max())
    if width * prompts == len(prompt_of_row):
        return PromptTable(prompts, width)
    first = counts.cumsum(0) - counts
    rows = torch.arange(len(prompt_of_row), device=prompt_of_row.device)
    slots = prompt_of_row * width + rows - first[prompt_of_row]
    sources = slots.new_zeros(prompts * width).index_copy_(0, slots, rows)
    return PromptTable(prompts, width, slots, sources)


def attend_prompts(
    query: Float[Tensor, "rows kv_heads repeats key"],
    key: Float[Tensor, "prompts kv_heads tokens key"],
    value: Float[Tensor, "prompts kv_heads tokens value"],
    table: PromptTable,
    scoring: Scoring,
) -> Part:
    """Attention of every row over the whole of its prompt.

    Computed as: one product for each prompt and key-value head, with the queries of all its rows
    and of all heads that share the key-value head side by side.
    """
    prompts, width = table.prompts, table.width
    _, heads, repeats, size = query.shape
    if table.sources is not None:
        query = query.index_select(0, table.sources)
    folded = query.view(prompts, width, heads, repeats, size).transpose(1, 2)
    queries = width * repeats
    filled = pad(folded.reshape(prompts, heads, queries, size), (0, 0, 0, -queries % LEAST_QUERIES))
    part = attend(filled, key, value, scoring)
    out, log_sum = part.out[:, :, :queries], part.log_sum[:, :, :queries]
    shape = (prompts, heads, width, repeats)
    out = out.reshape(*shape, -1).transpose(1, 2).reshape(prompts * width, heads, repeats, -1)
    log_sum = log_sum.reshape(shape).transpose(1, 2).reshape(prompts * width, heads, repeats)
    if table.slots is not None:
        out, log_sum = out.index_select(0, table.slots), log_sum.index_select(0, table.slots)
    return Part(out, log_sum)
