"""Running a model with an attention function of our own, through transformers' public registry."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedConfig, PreTrainedModel

from dph.errors import ModelError

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
    ) -> Tensor:
        """The mixed values."""
        ...


class _Running(NamedTuple):
    configs: list[PreTrainedConfig]
    attend: Attend


_current: ContextVar[_Running | None] = ContextVar("dph_attention", default=None)


@contextmanager
def attending(model: PreTrainedModel, attend: Attend) -> Iterator[None]:
    """Let every attention layer of ``model`` call ``attend``; afterwards everything is restored.

    No mask is built inside: transformers makes none for an implementation without a mask
    function. Layers that bypass the registry keep their own attention, so whoever uses this
    checks the result once (a model is not required to use the registry).
    """
    with _running(_Running(_configs(model), attend)):
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


def _configs(model: PreTrainedModel) -> list[PreTrainedConfig]:
    """The distinct configs of a model and its parts."""
    found: dict[int, PreTrainedConfig] = {}
    for module in model.modules():
        config = getattr(module, "config", None)
        if isinstance(config, PreTrainedConfig):
            found.setdefault(id(config), config)
    return list(found.values())
