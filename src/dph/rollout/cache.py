"""Key-value caches: preallocated slabs where attention is plain, else what transformers offers."""

import inspect
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer


class SlabLayer(DynamicLayer):  # type: ignore[misc]
    """One layer's keys and values in memory that is allocated once for ``capacity`` tokens.

    ``DynamicLayer`` copies the whole cache for every token; this writes the new token in place
    and returns a view.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.is_initialized = False
        self.used = 0

    def update(
        self,
        key_states: Float[Tensor, "rows heads tokens key"],
        value_states: Float[Tensor, "rows heads tokens value"],
        *_: Any,
        **__: Any,
    ) -> tuple[Tensor, Tensor]:
        """Store the new tokens; return the keys and values of all tokens so far."""
        if not self.is_initialized:
            self.keys, self.values = self._slab(key_states), self._slab(value_states)
            self.is_initialized = True
        end = self.used + key_states.shape[2]
        self.keys[:, :, self.used : end] = key_states
        self.values[:, :, self.used : end] = value_states
        self.used = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        """The number of tokens stored."""
        return self.used

    def batch_select_indices(self, indices: Int[Tensor, "rows"]) -> None:
        """Keep, repeat or reorder rows."""
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_empty(len(indices), *old.shape[1:])
            used = old[:, :, : self.used]
            torch.index_select(used, 0, indices, out=new[:, :, : self.used])
            setattr(self, name, new)

    def _slab(self, states: Tensor) -> Tensor:
        rows, heads, _, width = states.shape
        return states.new_empty(rows, heads, self.capacity, width)


def attends_plainly(model: PreTrainedModel, *, tokens: int) -> bool:
    """Whether every layer attends to all of ``tokens`` tokens through a 4-D mask and positions.

    False for sliding windows shorter than ``tokens``, linear attention, ALiBi, and attention
    kernels that take no 4-D mask.
    """
    parameters = inspect.signature(model.forward).parameters
    return (
        model.config._attn_implementation in ("sdpa", "eager")
        and {"position_ids", "logits_to_keep"} <= parameters.keys()
        and not getattr(model.config, "alibi", False)
        and all(_reaches(layer, tokens) for layer in DynamicCache(config=model.config).layers)
    )


def new_cache(model: PreTrainedModel, *, tokens: int, plain: bool) -> Cache:
    """An empty cache with room for ``tokens`` tokens a row."""
    dynamic = DynamicCache(config=model.config)
    if not plain:
        return dynamic
    return Cache(layers=[SlabLayer(tokens) for _ in dynamic.layers])


def _reaches(layer: Any, tokens: int) -> bool:
    if type(layer) is DynamicSlidingWindowLayer:
        return bool(layer.sliding_window >= tokens)
    return type(layer) is DynamicLayer
