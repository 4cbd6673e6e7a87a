"""Keys and values of a wave: one copy of each prompt, and each row's own tokens."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.attention.kernels import Scoring
from dph.attention.merging import merge_evenly
from dph.rollout.torch.prefix_attention import attend_prompts, prompt_table
from dph.rollout.torch.wave_cache import RowLayer, WaveCache
from dph.rollout.torch.waves import Wave, padded_width

_COMPACT_PROMPTS_BELOW = 0.5


@dataclass(slots=True)
class _Layer(RowLayer):
    prompt_keys: Float[Tensor, "prompts kv_heads width key"]
    prompt_values: Float[Tensor, "prompts kv_heads width value"]


class SharedCache(WaveCache[_Layer]):
    """The cache of one wave whose prompts all rows read in one copy.

    A prompt stands there whole, also where others begin alike: reading what they share once in
    every step would save nothing on a CPU (docs/sampling.md).

    Memory: prompts x longest prompt + rows x ``capacity`` tokens, allocated with the first tokens
    of each layer. Rows that leave give theirs back.
    """

    def __init__(
        self, wave: Wave, *, capacity: int, device: torch.device, in_place: bool = False
    ) -> None:
        super().__init__(wave, first=0, capacity=capacity, device=device, in_place=in_place)
        self.width = padded_width(max(map(len, wave.prompts)))
        self.row_bias = None
        if in_place:
            self.row_bias = torch.full((1, 1, 1, capacity), -torch.inf, device=device)
            self.row_bias[..., 0] = 0
        self._share()

    @property
    def tokens(self) -> int:
        """The tokens there is memory for."""
        return len(self.lengths) * self.width + self.rows * self.capacity

    def store_prompts(
        self,
        layer: int,
        places: Int[Tensor, "prompts"],
        keys: Float[Tensor, "prompts kv_heads tokens key"],
        values: Float[Tensor, "prompts kv_heads tokens value"],
    ) -> None:
        """Keep the keys and values of the prompts at ``places``, padded at the end."""
        if layer not in self.layers:
            # Zero, because what is masked must still be finite: 0 * NaN is NaN.
            self.layers[layer] = _Layer(
                *(self._room(x, self.rows) for x in (keys, values)),
                *(
                    x.new_zeros(len(self.lengths), x.shape[1], self.width, x.shape[3])
                    for x in (keys, values)
                ),
            )
        stored = self.layers[layer]
        tokens = keys.shape[2]
        stored.prompt_keys[places, :, :tokens] = keys
        stored.prompt_values[places, :, :tokens] = values

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
        rows, heads = key.shape[:2]
        grouped = query.reshape(rows, heads, -1, query.shape[2])
        own = self._attend_to_rows(stored, grouped, key, value, Scoring(scaling, softcap))
        prompt = attend_prompts(
            grouped,
            stored.prompt_keys,
            stored.prompt_values,
            self.table,
            Scoring(scaling, softcap, bias=self.bias),
        )
        return merge_evenly(prompt, own).reshape(rows, query.shape[1], -1)

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep these rows, in ascending order, and the prompts that they need."""
        super().select(kept)
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

    def _share(self) -> None:
        self.table = prompt_table(self.prompt_of_row, prompts=len(self.lengths))
        columns = torch.arange(self.width, device=self.lengths.device)
        padding = columns >= self.lengths[:, None]
        bias = torch.zeros(padding.shape, device=padding.device).masked_fill_(padding, -torch.inf)
        self.bias = bias[:, None, None] if bool(padding.any()) else None
