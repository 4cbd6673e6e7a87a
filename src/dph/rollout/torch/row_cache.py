"""Keys and values of a wave of short prompts: each row's prompt stands before its own tokens."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.attention.kernels import Scoring
from dph.rollout.torch.prefix_attention import attend, keep_token
from dph.rollout.torch.waves import Wave, padded_width, row_width


@dataclass(slots=True)
class _Layer:
    keys: Float[Tensor, "rows kv_heads columns key"]
    values: Float[Tensor, "rows kv_heads columns value"]


class RowCache:
    """The cache of one wave whose prompts are so short that a copy for each row costs less.

    Reading one copy for all rows takes a second attention and a merge in every layer and step; for
    prompts of at most 64 tokens these take longer than reading the copies (docs/sampling.md).

    Memory: rows x (``width`` + ``capacity``) tokens. The width depends on a prompt's own length
    alone, so that its neighbours do not change how sums are rounded. With ``in_place``, what
    changes from step to step changes inside tensors that stay where they are.
    """

    lends = False
    """Whether other waves may copy what their prompts begin with."""

    def __init__(
        self, wave: Wave, *, capacity: int, device: torch.device, in_place: bool = False
    ) -> None:
        width = row_width(max(map(len, wave.prompts)))
        assert width is not None
        self.prompts: tuple[tuple[int, ...], ...] = wave.prompts
        self.width, self.capacity = width, capacity
        self.used = 0
        self.selections = 0
        lengths = torch.tensor([len(prompt) for prompt in wave.prompts], device=device)
        self.prompt_of_row = torch.tensor([row.prompt for row in wave.rows], device=device)
        self.positions = lengths.index_select(0, self.prompt_of_row)
        columns = torch.arange(width + capacity, device=device)
        unseen = (columns >= self.positions[:, None]) & (columns < width)
        self._in_place = in_place
        if in_place:
            unseen |= columns > width  # all that is to come after the first token
        bias = torch.zeros(unseen.shape, device=device).masked_fill_(unseen, -torch.inf)
        self.bias = bias[:, None, None]
        self.layers: dict[int, _Layer] = {}
        self._cursor = torch.full((1,), width, dtype=torch.long, device=device)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.positions)

    @property
    def columns(self) -> int:
        """How many columns of own tokens the next step reads."""
        if not self._in_place:
            return self.used + 1
        return min(padded_width(self.used + 1), self.capacity)

    @property
    def tokens(self) -> int:
        """The tokens there is memory for."""
        return self.rows * (self.width + self.capacity)

    def store_prompts(
        self,
        layer: int,
        places: Int[Tensor, "prompts"],
        keys: Float[Tensor, "prompts kv_heads tokens key"],
        values: Float[Tensor, "prompts kv_heads tokens value"],
    ) -> None:
        """Keep the keys and values of the prompts at ``places``, padded at the end, in their rows.

        All prompts are kept before the first row leaves.
        """
        if layer not in self.layers:
            self.layers[layer] = _Layer(
                *(x.new_zeros(self._shape(x, self.rows)) for x in (keys, values))
            )
        stored = self.layers[layer]
        tokens = min(keys.shape[2], self.width)
        which = (self.prompt_of_row[:, None] == places).nonzero()
        rows, prompts = which[:, 0], which[:, 1]
        stored.keys[rows, :, :tokens] = keys[:, :, :tokens].index_select(0, prompts)
        stored.values[rows, :, :tokens] = values[:, :, :tokens].index_select(0, prompts)

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
        column = self._cursor if self._in_place else self.width + self.used
        keep_token(stored.keys, key, column)
        keep_token(stored.values, value, column)
        end = self.width + self.columns
        rows, heads = key.shape[:2]
        found = attend(
            query.reshape(rows, heads, -1, query.shape[2]),
            stored.keys[:, :, :end],
            stored.values[:, :, :end],
            Scoring(scaling, softcap, bias=self.bias[..., :end]),
        )
        return found.out.reshape(rows, query.shape[1], -1)

    def advance(self) -> None:
        """Count the token that every layer has kept."""
        self.used += 1
        self.positions += 1
        self._cursor += 1
        if self._in_place and self.used < self.capacity:
            self.bias[..., self.width + self.used] = 0

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep these rows, in ascending order."""
        self.selections += 1
        self.prompt_of_row = self.prompt_of_row.index_select(0, kept)
        self.positions = self.positions.index_select(0, kept)
        self.bias = self.bias.index_select(0, kept)
        for layer in self.layers.values():
            layer.keys = self._selected(layer.keys, kept)
            layer.values = self._selected(layer.values, kept)

    def _selected(self, old: Tensor, kept: Int[Tensor, "kept"]) -> Tensor:
        shape, end = self._shape(old, len(kept)), self.width + self.used
        # What is read before it is written is masked, and must be finite: 0 * NaN is NaN.
        new = old.new_zeros(shape) if self._in_place else old.new_empty(shape)
        torch.index_select(old[:, :, :end], 0, kept, out=new[:, :, :end])
        return new

    def _shape(self, like: Float[Tensor, "_ kv_heads _ size"], rows: int) -> tuple[int, ...]:
        return (rows, like.shape[1], self.width + self.capacity, like.shape[3])
