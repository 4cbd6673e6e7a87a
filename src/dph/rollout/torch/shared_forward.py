"""Forward passes of a model whose rows share their prompts' keys and values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from dph.attention.context import Attend, attending
from dph.errors import ModelError
from dph.rollout.torch.prefix_attention import attend_causally
from dph.rollout.torch.shared_cache import SharedCache
from dph.rollout.torch.step_graphs import StepGraphs
from dph.rollout.torch.waves import Wave, padded_width

PREFILL_TOKENS = 8192
"""Prompt tokens of one forward; a longer prompt has one of its own."""
LEAST_ROWS = 16
"""Matrix products of fewer rows round differently on a CPU, so that a row's tokens would depend on
how many others are left; a forward of fewer tokens is filled up."""


class SharedForward:
    """Prefills each prompt once and decodes all rows of all waves in one forward.

    All tokens of a forward lie in one sequence with positions of their own; which of them see
    each other is decided in the attention (see `attending`), so there is no padding outside it.
    """

    joins = True
    """Whether waves are decoded in one forward, so that one may start while others go on."""

    def __init__(
        self, model: PreTrainedModel, *, max_tokens: int, graphs: StepGraphs | None = None
    ) -> None:
        self.model = model
        self.max_tokens = max_tokens
        self._graphs = graphs
        self._tokens: Tensor
        self._attend: Attend
        self._real = 0

    @contextmanager
    def active(self) -> Iterator[None]:
        """The model attends as this object says; needed around everything else."""
        with attending(self.model, self._attend_real):
            yield

    def start(self, wave: Wave) -> tuple[SharedCache, Float[Tensor, "rows vocabulary"]]:
        """Run the prompts; return the wave's cache and the logits of each row's first token."""
        # The last token drawn is never an input.
        capacity = max(self.max_tokens - 1, 1)
        cache = SharedCache(
            wave,
            capacity=capacity,
            device=self.model.device,
            in_place=self._graphs is not None,
        )
        logits = []
        first = 0
        for prompts in _parts(wave.prompts):
            logits.append(self._prefill(cache, prompts, first))
            first += len(prompts)
        return cache, torch.cat(logits).index_select(0, cache.prompt_of_row)

    def step(
        self, caches: Sequence[SharedCache], tokens: Int[Tensor, "rows"]
    ) -> Float[Tensor, "rows vocabulary"]:
        """Append one token to every row of all waves; return the logits of the next."""
        if self._graphs is None:
            logits = self._step(caches, tokens)
        else:
            key = tuple((id(cache), cache.selections, cache.columns) for cache in caches)
            if self._graphs.knows(key):
                self._tokens.copy_(tokens)
            else:
                self._tokens = tokens.clone()
            logits = self._graphs.run(key, partial(self._step, caches, self._tokens))
        for cache in caches:
            cache.advance()
        return logits

    def _step(self, caches: Sequence[SharedCache], tokens: Int[Tensor, "rows"]) -> Tensor:
        def attend(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any
        ) -> Tensor:
            parts, first = [], 0
            layer, mixing = _layer(module), _mixing(query, options)
            # Autocast leaves rotated queries and keys in float32; attention is the values' dtype.
            query, key, value = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))
            if len(caches) == 1:
                return caches[0].attend(layer, query, key, value, **mixing)[None]
            for cache in caches:
                rows = slice(first, first + cache.rows)
                parts.append(cache.attend(layer, query[rows], key[rows], value[rows], **mixing))
                first += cache.rows
            return torch.cat(parts)[None]

        self._attend = attend
        return self._run(tokens, torch.cat([cache.positions for cache in caches]))

    def _prefill(
        self, cache: SharedCache, prompts: Sequence[tuple[int, ...]], first: int
    ) -> Float[Tensor, "prompts vocabulary"]:
        device = self.model.device
        lengths = torch.tensor([len(ids) for ids in prompts], device=device)
        width = padded_width(max(map(len, prompts)))
        columns = torch.arange(width, device=device).expand(len(prompts), -1)
        real = columns < lengths[:, None]
        places = None if bool(real.all()) else real.flatten().nonzero()[:, 0]

        def padded(states: Tensor) -> Tensor:
            """[1, heads, tokens, size] as [prompts, heads, width, size]."""
            flat = states[0].transpose(0, 1)
            if places is not None:
                table = flat.new_zeros(real.numel(), *flat.shape[1:])
                flat = table.index_copy_(0, places, flat)
            return flat.reshape(len(prompts), width, *flat.shape[1:]).transpose(1, 2)

        def attend(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any
        ) -> Tensor:
            mixing = _mixing(query, options)
            query, key, value = (padded(x.to(value.dtype)) for x in (query, key, value))
            cache.store_prompts(_layer(module), first, key, value)
            flat = attend_causally(query, key, value, **mixing).transpose(1, 2).flatten(0, 1)
            return (flat if places is None else flat.index_select(0, places))[None]

        self._attend = attend
        ids = torch.tensor([token for prompt in prompts for token in prompt], device=device)
        return self._run(ids, columns[real], keep=lengths.cumsum(0) - 1)

    def _run(self, tokens: Tensor, positions: Tensor, *, keep: Tensor | None = None) -> Tensor:
        """Logits at ``keep``, by default everywhere."""
        self._real = len(tokens)
        wanted = self._real if keep is None else len(keep)
        options = {} if keep is None else {"logits_to_keep": _filled(keep)}
        output = self.model(
            input_ids=_filled(tokens)[None],
            position_ids=_filled(positions)[None],
            use_cache=False,
            **options,
        )
        logits: Tensor = output.logits[0, :wanted]
        return logits

    def _attend_real(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any
    ) -> Tensor:
        """Attention of the real tokens; 0 for what fills up the forward."""
        real, count = self._real, query.shape[2]
        if real == count:
            return self._attend(module, query, key, value, **options)
        query, key, value = (x[:, :, :real] for x in (query, key, value))
        out = self._attend(module, query, key, value, **options)
        return pad(out, (0, 0, 0, 0, 0, count - real))


def _filled(values: Int[Tensor, "tokens"]) -> Int[Tensor, "filled"]:
    """At least `LEAST_ROWS` values: the last one again and again, which is surely valid."""
    return torch.cat([values, values[-1:].expand(max(LEAST_ROWS - len(values), 0))])


def _parts(prompts: Sequence[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    """Neighbouring prompts of at most ``PREFILL_TOKENS`` tokens together."""
    part: list[tuple[int, ...]] = []
    tokens = 0
    for prompt in prompts:
        if part and tokens + len(prompt) > PREFILL_TOKENS:
            yield part
            part, tokens = [], 0
        part.append(prompt)
        tokens += len(prompt)
    yield part


def _layer(module: nn.Module) -> int:
    layer = getattr(module, "layer_idx", None)
    if layer is None:
        raise ModelError(f"{type(module).__name__} does not say which layer it belongs to")
    return int(layer)


def _mixing(query: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """The options that change the result; windows and dropout do not, see `shares_prompts`."""
    scaling = options.get("scaling")
    return {
        "scaling": query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        "softcap": options.get("softcap"),
    }
