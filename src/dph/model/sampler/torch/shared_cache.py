"""Keys and values of a wave: one copy of each prompt, and each row's own tokens."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from dph.model.attention.kernels import AttentionPart, Scoring, kernel_for, merge_evenly
from dph.model.sampler.torch.waves import Wave, padded_width

LEAST_QUERIES = 4
"""CPU kernels round one to three queries, and three that are left over, differently from the same
queries beside others: a row's tokens would depend on how many others are left."""


def attend(
    query: Float[Tensor, "batch heads queries key"],
    key: Float[Tensor, "batch heads tokens key"],
    value: Float[Tensor, "batch heads tokens value"],
    scoring: Scoring,
) -> AttentionPart:
    """Attention of every query over all tokens, as a part that can be merged with others.

    Computed as: the kernels that masks can be added to, because prompts are padded.
    """
    return kernel_for(query, value, softcap=scoring.softcap).forward(query, key, value, scoring)


class PromptTable(NamedTuple):
    """The prompt that each row reads, as a table of prompts and their rows.

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
) -> AttentionPart:
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
    return AttentionPart(out, log_sum)


_COMPACT_PROMPTS_BELOW = 0.5


@dataclass(slots=True)
class _Layer:
    prompt_keys: Float[Tensor, "prompts kv_heads width key"]
    prompt_values: Float[Tensor, "prompts kv_heads width value"]
    keys: Float[Tensor, "rows kv_heads capacity key"]
    values: Float[Tensor, "rows kv_heads capacity value"]


class SharedCache:
    """The cache of one wave; its rows have all drawn the same number of tokens.

    A prompt stands there whole, also where others begin alike: reading what they share once in
    every step would save nothing on a CPU (docs/performance.md).

    Memory: prompts x longest prompt + rows x ``capacity`` tokens, allocated with the first tokens
    of each layer. Rows that leave give theirs back.
    """

    def __init__(self, wave: Wave, *, capacity: int, device: torch.device) -> None:
        self.prompts: tuple[tuple[int, ...], ...] = wave.prompts
        self.capacity = capacity
        self.used = 0
        self.lengths = torch.tensor([len(prompt) for prompt in wave.prompts], device=device)
        self.width = padded_width(max(map(len, wave.prompts)))
        self.prompt_of_row = torch.tensor([row.prompt for row in wave.rows], device=device)
        self.positions = self.lengths.index_select(0, self.prompt_of_row)
        self.layers: dict[int, _Layer] = {}
        self._share()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.prompt_of_row)

    @property
    def tokens(self) -> int:
        """The tokens there is memory for."""
        return len(self.lengths) * self.width + self.rows * self.capacity

    def store_prompts(
        self,
        layer: int,
        places: Int[Tensor, "prompts"],
        keys: Float[Tensor, "prompts width kv_heads key"],
        values: Float[Tensor, "prompts width kv_heads value"],
    ) -> None:
        """Keep the keys and values of the prompts at ``places``, padded at the end."""
        tables = keys.transpose(1, 2), values.transpose(1, 2)
        if layer not in self.layers:
            # Zero, because what is masked must still be finite: 0 * NaN is NaN.
            self.layers[layer] = _Layer(
                *(
                    x.new_zeros(len(self.lengths), *x.shape[1:2], self.width, x.shape[3])
                    for x in tables
                ),
                *(self._own(x, self.rows) for x in tables),
            )
        stored, width = self.layers[layer], keys.shape[1]
        stored.prompt_keys[places, :, :width], stored.prompt_values[places, :, :width] = tables

    def lent(
        self, layer: int, prompt: int, tokens: int
    ) -> tuple[Float[Tensor, "tokens kv_heads key"], Float[Tensor, "tokens kv_heads value"]]:
        """Keys and values of the first ``tokens`` of a prompt."""
        stored = self.layers[layer]
        keys, values = stored.prompt_keys[prompt], stored.prompt_values[prompt]
        return keys[:, :tokens].transpose(0, 1), values[:, :tokens].transpose(0, 1)

    def attend(
        self,
        layer: int,
        query: Float[Tensor, "rows heads key"],
        key: Float[Tensor, "rows kv_heads key"],
        value: Float[Tensor, "rows kv_heads value"],
        *,
        scaling: float,
        softcap: float | None,
    ) -> Float[Tensor, "rows heads value"]:
        """Keep the new token of every row and attend to its prompt and to its own tokens."""
        stored = self.layers[layer]
        stored.keys[:, :, self.used], stored.values[:, :, self.used] = key, value
        end = self.used + 1
        rows, heads = key.shape[:2]
        grouped = query.reshape(rows, heads, -1, query.shape[2])
        own = attend(
            grouped,
            stored.keys[:, :, :end],
            stored.values[:, :, :end],
            Scoring(scaling, softcap),
        )
        prompt = attend_prompts(
            grouped,
            stored.prompt_keys,
            stored.prompt_values,
            self.table,
            Scoring(scaling, softcap, bias=self.bias),
        )
        return merge_evenly(prompt, own).reshape(rows, query.shape[1], -1)

    def advance(self) -> None:
        """Count the token that every layer has kept."""
        self.used += 1
        self.positions += 1

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep these rows, in ascending order, and the prompts that they need."""
        self.prompt_of_row = self.prompt_of_row.index_select(0, kept)
        self.positions = self.positions.index_select(0, kept)
        for layer in self.layers.values():
            layer.keys = self._selected(layer.keys, kept)
            layer.values = self._selected(layer.values, kept)
        needed, renumbered = torch.unique_consecutive(self.prompt_of_row, return_inverse=True)
        if len(needed) < _COMPACT_PROMPTS_BELOW * len(self.lengths):
            self.prompt_of_row = renumbered
            self.prompts = tuple(self.prompts[place] for place in needed.tolist())
            self.lengths = self.lengths.index_select(0, needed)
            self.width = padded_width(int(self.lengths.max()))
            for layer in self.layers.values():
                layer.prompt_keys = layer.prompt_keys[needed, :, : self.width]
                layer.prompt_values = layer.prompt_values[needed, :, : self.width]
        self._share()

    def _selected(self, old: Tensor, kept: Int[Tensor, "kept"]) -> Tensor:
        new = self._own(old, len(kept))
        torch.index_select(old[:, :, : self.used], 0, kept, out=new[:, :, : self.used])
        return new

    def _own(self, like: Float[Tensor, "_ kv_heads _ size"], rows: int) -> Tensor:
        """Memory for the own tokens of ``rows`` rows."""
        return like.new_empty(rows, like.shape[1], self.capacity, like.shape[3])

    def _share(self) -> None:
        self.table = prompt_table(self.prompt_of_row, prompts=len(self.lengths))
        columns = torch.arange(self.width, device=self.lengths.device)
        padding = columns >= self.lengths[:, None]
        bias = torch.zeros(padding.shape, device=padding.device).masked_fill_(padding, -torch.inf)
        self.bias = bias[:, None, None] if bool(padding.any()) else None
