"""Checks of a model's layers before prompts are shared in it: what they see and keep."""

import inspect
import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle, islice
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from dph.errors import ModelError

# What rounding does to a model: its own logits, and how far they move where all is rounded anew.
#
# Two ways of computing the same thing differ by rounding, and by how much is up to the model, its
# tokens and its precision: a token that was hardly trained can make activations so large that
# logits in bfloat16 are off by more than they mean. So the model is asked, by Monte Carlo
# arithmetic (D. S. Parker, 1997): whatever its modules put out is moved up or down, at random, by
# as much as it may be off.

DRAWS = 8
"""Random roundings that the model's own movement is measured by."""
MOST = 2.0
"""Movements that two computations may lie apart: each is at most one away from what is exact."""


@dataclass(frozen=True, slots=True)
class OwnLogits:
    """The last logits of a row that a model runs by itself.

    Attributes:
        values: as the model gives them.
        moved: the same row in a batch of `DRAWS`, each rounded in its own way.
    """

    values: Float[Tensor, "tokens vocabulary"]
    moved: Float[Tensor, "draws tokens vocabulary"]

    def agree_with(self, ours: Float[Tensor, "tokens vocabulary"]) -> bool:
        """Whether ``ours`` differ by no more than rounding explains."""
        movement = root_mean_square(self.moved, self.values)
        return root_mean_square(ours, self.values) <= MOST * movement


Row = tuple[Sequence[int], int]
"""Tokens, and the number of the last ones at which there is a prediction."""


def own_logits(model: PreTrainedModel, rows: Sequence[Row]) -> list[OwnLogits]:
    """The model's logits of each row, of one pass of all and of one of `DRAWS` rounded copies."""
    values = last_logits(model, rows)
    with rounded_anew(model):
        moved = last_logits(model, rows, copies=DRAWS)
    return [OwnLogits(own[0], drawn) for own, drawn in zip(values, moved, strict=True)]


def last_logits(
    model: PreTrainedModel, rows: Sequence[Row], *, copies: int = 1
) -> list[Float[Tensor, "copies _ vocabulary"]]:
    """The logits of each row, of which there are some ``copies``, in one pass.

    Rows are padded on the right, where no token of theirs sees it.
    """
    width = max(len(ids) for ids, _ in rows)
    padded = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids, _ in rows])
    batch = padded.repeat(copies, 1).to(model.device)
    mask = torch.ones_like(batch)
    logits: Tensor = model(input_ids=batch, attention_mask=mask, use_cache=False).logits
    by_row = logits.reshape(copies, len(rows), *logits.shape[1:])
    return [by_row[:, i, len(ids) - last : len(ids)] for i, (ids, last) in enumerate(rows)]


@contextmanager
def rounded_anew(model: nn.Module, draw: int = 0) -> Iterator[None]:
    """Every output of a module without parts is moved by its rounding, up or down at random.

    Computed as: a relative u + sqrt(n) v. u is half the spacing of the output's precision, v that
    of the sums (float32 for 16 bits), n the width of the input: rounding of a sum of n terms grows
    with the root of n (Higham and Mary 2019). The same ``draw`` moves a module's outputs of the
    same shape alike, as gradient checkpointing needs; torch's own random numbers are left alone.
    """
    leaves = [module for module in model.modules() if not any(True for _ in module.children())]
    handles = [
        module.register_forward_hook(partial(_moved, seed=draw * len(leaves) + number))
        for number, module in enumerate(leaves)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def root_mean_square(found: Tensor, wanted: Tensor) -> float:
    """The distance of two tensors by element; NaN, which lost weights give, counts as 0."""
    # Whoever uses the values says so when it meets them.
    apart = found.detach().nan_to_num() - wanted.detach().nan_to_num()
    return float(apart.float().square().mean().sqrt())


def _moved(_module: nn.Module, inputs: Any, output: Any, *, seed: int) -> Any:
    if isinstance(output, tuple):
        return tuple(_moved(_module, inputs, part, seed=seed) for part in output)
    plain = isinstance(output, Tensor) and output.is_floating_point()
    if not plain or any(output is given for given in inputs):  # dropout that does nothing
        return output
    exact = torch.promote_types(output.dtype, torch.float32)
    terms = inputs[0].shape[-1] if inputs and isinstance(inputs[0], Tensor) else 1
    size = (torch.finfo(output.dtype).eps + terms**0.5 * torch.finfo(exact).eps) / 2
    generator = torch.Generator(output.device).manual_seed(seed)
    factor = torch.empty(output.shape, dtype=exact, device=output.device)
    factor.bernoulli_(generator=generator).mul_(2 * size).add_(1 - size)
    return (output * factor).to(output.dtype)


# Tokens to ask a model with: those of the prompts that it is to be used on.

COUNT = 10
"""Different tokens that rows of a probe are made of."""


def probe_tokens(config: PreTrainedConfig, prompts: Sequence[Sequence[int]]) -> list[int]:
    """`COUNT` tokens, all different where the vocabulary has that many.

    The first of ``prompts``, without those that begin, end or pad a text; then others of the
    vocabulary, by a seeded choice. Tokens by their number alone (1, 2, 3) are often special ones,
    which training has hardly touched: a model rounds worst on them.
    """
    text = config.get_text_config()
    special = {
        token
        for name in ("bos_token_id", "eos_token_id", "pad_token_id")
        for token in _listed(getattr(text, name, None))
    }
    vocabulary = range(text.vocab_size)
    others = random.Random(0).sample(vocabulary, min(len(vocabulary), COUNT + len(special)))
    found: dict[int, None] = {}
    for token in chain(chain.from_iterable(prompts), others):
        if len(found) == COUNT:
            break
        if token not in special:
            found[token] = None
    return list(islice(cycle(found or [0]), COUNT))


def _listed(value: int | Sequence[int] | None) -> Sequence[int]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else value


RECURRENT = (
    "keep a recurrent state (Mamba, RWKV, linear attention), which cannot be repeated for the "
    "samples of a prompt; only models whose layers all attend to tokens can be used"
)


def attention_window(model: PreTrainedModel) -> float:
    """Number of tokens that every layer attends to; 0 if a layer does not attend to tokens."""
    return min(map(_reach, DynamicCache(config=model.config).layers), default=torch.inf)


def recurrent_layers(config: PreTrainedConfig) -> int:
    """Number of layers with a recurrent state, alone or in addition to an attention to tokens."""
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


# Running a model with an attention function of our own, through transformers' public registry.

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
