"""Internals of transformers, which change from release to release: caches, attention, refusals.

Known are releases 5.5 to 5.24; `tests/model/test_releases.py` has their names.
"""

import inspect
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from transformers import (
    AttentionInterface,
    AutoModelForCausalLM,
    DynamicCache,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from dph.errors import ModelError

CACHE_ARGUMENTS = ("cache", "past_key_values")
"""Names of the cache in a forward: since transformers 5.24, and before it."""
STATE_ARGUMENTS = {"state", "cache_params"}
"""Names of a recurrent state there: RWKV's, and Mamba's before 5.24."""
RECURRENT = (
    "keep a recurrent state (Mamba, RWKV, linear attention), which cannot be repeated for the "
    "samples of a prompt; only models whose layers all attend to tokens can be used"
)


def attention_window(model: PreTrainedModel) -> float:
    """Number of tokens that every layer attends to; 0 if a layer does not attend to tokens."""
    return min(map(_reach, DynamicCache(config=model.config).layers), default=torch.inf)


def recurrent_layers(config: PreTrainedConfig) -> int:
    """Number of layers with a recurrent state, including those that attend to tokens as well."""
    # By the attributes of a layer: the classes' names change from release to release.
    return sum(hasattr(layer, "recurrent_states") for layer in DynamicCache(config=config).layers)


def keeps_state(config: PreTrainedConfig, classes: Iterable[type[PreTrainedModel]]) -> bool:
    """True if such models remember a prompt in another form than its tokens' keys and values."""
    taken = (inspect.signature(found.forward).parameters.keys() for found in classes)
    return recurrent_layers(config) > 0 or any(STATE_ARGUMENTS & names for names in taken)


def cache_argument(model: PreTrainedModel) -> str | None:
    """The argument of the model's forward that is a cache, by its name in this release; or None."""
    taken = inspect.signature(model.forward).parameters
    return next((name for name in CACHE_ARGUMENTS if name in taken), None)


def causal_classes(config: PreTrainedConfig) -> tuple[type[PreTrainedModel], ...]:
    """The causal language models that transformers has for a config."""
    found = AutoModelForCausalLM._model_mapping.get(type(config), ())
    return found if isinstance(found, tuple) else (found,)


def lacks_attention(error: Exception) -> bool:
    """True if a model could not be made because it has no attention of the name."""
    said = ("attention implementation", "does not support Flash Attention")
    return any(words in str(error) for words in said)


def _reach(layer: Any) -> float:
    if type(layer) is DynamicSlidingWindowLayer:
        return float(layer.sliding_window)
    return torch.inf if type(layer) is DynamicLayer else 0.0


_NAME = "dph"


class Attend(Protocol):
    """Attention of one layer: query, keys and values of the new tokens in, mixed values out.

    ``query`` is [batch, heads, tokens, key], ``key`` and ``value`` have as many heads as the model
    has key-value heads; the result is [batch, tokens, heads, value]. ``module`` is the layer's
    attention module, whose ``layer_idx`` says which layer it is. ``options`` are what the model
    passes on: ``scaling``, ``dropout``, ``softcap``, ``sliding_window`` ...
    """

    def __call__(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any
    ) -> Tensor: ...


class _Running(NamedTuple):
    configs: list[PreTrainedConfig]
    attend: Attend


_current: ContextVar[_Running | None] = ContextVar("dph_attention", default=None)


@contextmanager
def attending(model: PreTrainedModel, attend: Attend) -> Iterator[None]:
    """Let every attention layer of ``model`` call ``attend``; afterwards everything is restored.

    No mask is built inside: transformers makes none for an implementation without a mask
    function. Layers that bypass the registry keep their own attention, so the caller
    checks the result once (a model is not required to use the registry).
    """
    found: dict[int, PreTrainedConfig] = {}  # the distinct configs of the model and its parts
    for module in model.modules():
        config = getattr(module, "config", None)
        if isinstance(config, PreTrainedConfig):
            found.setdefault(id(config), config)
    with _running(_Running(list(found.values()), attend)):
        yield


def checkpoint_contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """For the forward and for the recomputation of a checkpointed layer: the same attention.

    The backward pass recomputes after `attending` was left; without this, as ``context_fn`` of
    ``torch.utils.checkpoint``, it would use the model's own attention.
    """
    running = _current.get()
    again = nullcontext() if running is None else _running(running)
    return nullcontext(), again


@contextmanager
def _running(running: _Running) -> Iterator[None]:
    before = [config._attn_implementation for config in running.configs]
    token = _current.set(running)
    try:
        for config in running.configs:
            config._attn_implementation = _NAME
        yield
    finally:
        # Parents come first: setting one sets its parts, which then get their own back.
        for config, name in zip(running.configs, before, strict=True):
            config._attn_implementation = name
        _current.reset(token)


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, _mask: object, **options: Any
) -> tuple[Tensor, None]:
    running = _current.get()
    if running is None:
        raise ModelError(
            "a layer's attention was called outside the forward pass that it belongs to"
        )
    return running.attend(module, query, key, value, **options), None


AttentionInterface.register(_NAME, _attend)
