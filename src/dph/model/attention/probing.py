"""What is asked of a model's layers before prompts are shared in it: what they see and keep."""

import inspect
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from dph.errors import ModelError

RECURRENT = (
    "keep a recurrent state (Mamba, RWKV, linear attention), which cannot be repeated for the "
    "samples of a prompt; a model can be used if all of its layers attend to tokens"
)


def attention_window(model: PreTrainedModel) -> float:
    """How many tokens every layer attends to; 0 where a layer does not attend to tokens at all."""
    return min(map(_reach, DynamicCache(config=model.config).layers), default=torch.inf)


def recurrent_layers(config: PreTrainedConfig) -> int:
    """How many layers keep a recurrent state, alone or beside an attention to tokens."""
    # Asked of what a layer holds: the classes' names change from release to release.
    return sum(hasattr(layer, "recurrent_states") for layer in DynamicCache(config=config).layers)


def require_token_cache(model: PreTrainedModel) -> None:
    """Refuse a model that remembers a prompt as anything else than its tokens' keys and values.

    Raises:
        ModelError: layers keep a recurrent state, or the model takes no such cache.
    """
    name = type(model).__name__
    if count := recurrent_layers(model.config):
        raise ModelError(f"{name} is not supported: {count} of its layers {RECURRENT}")
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        raise ModelError(f"{name} is not supported: its layers {RECURRENT}")


def _reach(layer: Any) -> float:
    if type(layer) is DynamicSlidingWindowLayer:
        return float(layer.sliding_window)
    return torch.inf if type(layer) is DynamicLayer else 0.0
