"""What every cache of a wave does: keep each row's own tokens, count them, and let rows leave."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.attention.kernels import Part, Scoring
from dph.rollout.torch.prefix_attention import attend, keep_token
from dph.rollout.torch.waves import Wave, padded_width


@dataclass(slots=True)
class RowLayer:
    """What one layer keeps for each row."""

    keys: Float[Tensor, "rows kv_heads columns key"]
    values: Float[Tensor, "rows kv_heads columns value"]


Layer = TypeVar("Layer", bound=RowLayer)


class WaveCache(Generic[Layer]):
    """Keys and values of one wave; its rows have all drawn the same number of tokens.

    A row's own tokens stand in columns from ``first`` on, ``capacity`` of them. ``row_bias`` is
    what hides columns: 0 or minus infinity, (rows or 1, 1, 1, columns); None hides nothing.

    With ``in_place``, as `StepGraphs` needs it, what changes from step to step changes inside
    tensors that stay where they are; own tokens are read in steps of 64 columns, in which
    ``row_bias`` hides those still to come.
    """

    row_bias: Tensor | None

    def __init__(
        self, wave: Wave, *, first: int, capacity: int, device: torch.device, in_place: bool
    ) -> None:
        self.prompts: tuple[tuple[int, ...], ...] = wave.prompts
        self.first, self.capacity = first, capacity
        self.used = 0
        self.selections = 0
        self.lengths = torch.tensor([len(prompt) for prompt in wave.prompts], device=device)
        self.prompt_of_row = torch.tensor([row.prompt for row in wave.rows], device=device)
        self.positions = self.lengths.index_select(0, self.prompt_of_row)
        self.layers: dict[int, Layer] = {}
        self._in_place = in_place
        self._cursor = torch.full((1,), first, dtype=torch.long, device=device)

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

    def advance(self) -> None:
        """Count the token that every layer has kept."""
        self.used += 1
        self.positions += 1
        self._cursor += 1
        if self._in_place and self.row_bias is not None and self.used < self.capacity:
            self.row_bias[..., self.first + self.used] = 0

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep these rows, in ascending order."""
        self.selections += 1
        self.prompt_of_row = self.prompt_of_row.index_select(0, kept)
        self.positions = self.positions.index_select(0, kept)
        for layer in self.layers.values():
            layer.keys = self._selected(layer.keys, kept)
            layer.values = self._selected(layer.values, kept)

    def _attend_to_rows(
        self,
        stored: RowLayer,
        query: Float[Tensor, "rows kv_heads repeats key"],
        key: Float[Tensor, "rows kv_heads key"],
        value: Float[Tensor, "rows kv_heads value"],
        scoring: Scoring,
    ) -> Part:
        """Keep the new token of every row and attend to what stands in the row."""
        column = self._cursor if self._in_place else self.first + self.used
        keep_token(stored.keys, key, column)
        keep_token(stored.values, value, column)
        end = self.first + self.columns
        bias = None if self.row_bias is None else self.row_bias[..., :end]
        keys, values = stored.keys[:, :, :end], stored.values[:, :, :end]
        return attend(query, keys, values, scoring._replace(bias=bias))

    def _selected(self, old: Tensor, kept: Int[Tensor, "kept"]) -> Tensor:
        end, new = self.first + self.used, self._room(old, len(kept))
        torch.index_select(old[:, :, :end], 0, kept, out=new[:, :, :end])
        return new

    def _room(self, like: Float[Tensor, "_ kv_heads _ size"], rows: int) -> Tensor:
        """Memory for so many rows; what is read before it is written is 0, as 0 * NaN is NaN."""
        shape = (rows, like.shape[1], self.first + self.capacity, like.shape[3])
        return like.new_zeros(shape) if self._in_place else like.new_empty(shape)
