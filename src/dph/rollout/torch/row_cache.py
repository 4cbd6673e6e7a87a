"""Keys and values of a wave of short prompts: each row's prompt stands before its own tokens."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.attention.kernels import Scoring
from dph.rollout.torch.wave_cache import RowLayer, WaveCache
from dph.rollout.torch.waves import Wave, row_width


class RowCache(WaveCache[RowLayer]):
    """The cache of one wave whose prompts are so short that a copy for each row costs less.

    Reading one copy for all rows takes a second attention and a merge in every layer and step; for
    prompts of at most 64 tokens these take longer than reading the copies (docs/sampling.md).

    Memory: rows x (``first`` + ``capacity``) tokens. The width that the prompts stand in depends
    on a prompt's own length alone, so that its neighbours do not change how sums are rounded.
    """

    def __init__(
        self, wave: Wave, *, capacity: int, device: torch.device, in_place: bool = False
    ) -> None:
        width = row_width(max(map(len, wave.prompts)))
        assert width is not None
        super().__init__(wave, first=width, capacity=capacity, device=device, in_place=in_place)
        columns = torch.arange(width + capacity, device=device)
        unseen = (columns >= self.positions[:, None]) & (columns < width)
        if in_place:
            unseen |= columns > width  # all that is to come after the first token
        bias = torch.zeros(unseen.shape, device=device).masked_fill_(unseen, -torch.inf)
        self.row_bias: Tensor = bias[:, None, None]

    @property
    def tokens(self) -> int:
        """The tokens there is memory for."""
        return self.rows * (self.first + self.capacity)

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
            # Zero, because what is masked must still be finite: 0 * NaN is NaN.
            self.layers[layer] = RowLayer(*(self._room(x, self.rows) for x in (keys, values)))
            for room in (self.layers[layer].keys, self.layers[layer].values):
                room[:, :, : self.first] = 0
        stored = self.layers[layer]
        tokens = min(keys.shape[2], self.first)
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
        rows, heads = key.shape[:2]
        grouped = query.reshape(rows, heads, -1, query.shape[2])
        scoring = Scoring(scaling, softcap)
        found = self._attend_to_rows(self.layers[layer], grouped, key, value, scoring)
        return found.out.reshape(rows, query.shape[1], -1)

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep these rows, in ascending order."""
        super().select(kept)
        self.row_bias = self.row_bias.index_select(0, kept)
