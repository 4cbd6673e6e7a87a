"""Forward passes of a model whose rows share their prompts' keys and values."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from dph.errors import ModelError
from dph.model.attention.probing import OwnLogits, own_logits, probe_tokens
from dph.model.attention.releases import Attend, attending, attention_window
from dph.model.forward.packing import LEAST_SAVED, to_device
from dph.model.sampler.torch.prefill import (
    PREFILL_TOKENS,
    PrefillAttention,
    PrefillPart,
    layer_of,
    prefilled,
)
from dph.model.sampler.torch.shared_cache import SharedCache
from dph.model.sampler.torch.waves import Wave, WaveRow, padded_width

CPU_PREFILL_TOKENS = 2048
"""The same on a CPU, where the numbers between two products of more tokens leave the cache."""
LEAST_ROWS = 16
"""Matrix products of fewer rows round differently on a CPU, so that a row's tokens would depend on
how many others are left; a forward of fewer tokens is filled up."""


class SharedForward:
    """Prefills what prompts share once and decodes all rows of all waves in one forward.

    All tokens of a forward are one sequence with their own positions; which of them see
    each other is decided in the attention (see `attending`), so there is no padding outside it.
    """

    joins = True
    """True if waves are decoded in one forward: one may start while others continue."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_tokens: int,
        least_saved: int = LEAST_SAVED,
    ) -> None:
        """Run a ``model`` that `sharing_refusal` does not refuse, for answers of ``max_tokens``."""
        self.model = model
        self.max_tokens = max_tokens
        self.least_saved = least_saved
        self._attend: Attend
        self._real = 0

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """The model attends as this object says; needed around everything else."""
        with attending(self.model, self._attend_real):
            yield

    def start(
        self, wave: Wave, living: Sequence[SharedCache] = ()
    ) -> tuple[SharedCache, Float[Tensor, "rows vocabulary"]]:
        """Run the prompts; return the wave's cache and the logits of each row's first token.

        What prompts begin with alike is run once, and not at all where a ``living`` cache has it.
        """
        # The last token drawn is never an input.
        cache = SharedCache(wave, capacity=max(self.max_tokens - 1, 1), device=self.model.device)
        on_cpu = self.model.device.type == "cpu"
        logits = prefilled(
            partial(self._prefill, cache),
            wave.prompts,
            cache,
            living,
            device=self.model.device,
            most_tokens=min(PREFILL_TOKENS, CPU_PREFILL_TOKENS) if on_cpu else PREFILL_TOKENS,
            least_saved=self.least_saved,
        )
        return cache, logits.index_select(0, cache.prompt_of_row)

    def step(
        self, caches: Sequence[SharedCache], tokens: Int[Tensor, "rows"]
    ) -> Float[Tensor, "rows vocabulary"]:
        """Append one token to every row of all waves; return the logits of the next."""
        logits = self._step(caches, tokens)
        for cache in caches:
            cache.advance()
        return logits

    def _step(self, caches: Sequence[SharedCache], tokens: Int[Tensor, "rows"]) -> Tensor:
        def attend(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any
        ) -> Tensor:
            parts, first = [], 0
            layer, mixing = layer_of(module), _mixing(query, options)
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
        self, cache: SharedCache, part: PrefillPart
    ) -> Float[Tensor, "prompts vocabulary"]:
        width = padded_width(max(part.lengths))
        tokens = part.tokens(width)
        (places,) = to_device([np.array(part.places)], tokens.device)

        def keep(layer: int, keys: Tensor, values: Tensor) -> None:
            keys, values = (
                x.index_select(0, tokens).view(len(places), width, *x.shape[1:])
                for x in (keys, values)
            )
            cache.store_prompts(layer, places, keys, values)

        self._attend = PrefillAttention(part, keep)
        return self._run(part.rows.ids, part.rows.positions, keep=part.last)

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


def _mixing(query: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """The options that change the result; windows and dropout do not, see `sharing_refusal`."""
    scaling = options.get("scaling")
    return {
        "scaling": query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        "softcap": options.get("softcap"),
    }


_PROMPTS = ((3, 1, 4), (3, 1, 5), (5,))
"""Of which tokens of a probe; shorter than any window worth asking about; two begin alike."""
_AFTER = (0, 1, 2, 3)
"""The token that follows, for each row."""


Ask = Callable[[PreTrainedModel, Wave, Tensor], tuple[Tensor, Tensor]]
"""Logits of the rows of a wave behind their prompts, and behind one more token each."""


def probed_logits(
    model: PreTrainedModel, wave: Wave, after: Int[Tensor, "rows"]
) -> tuple[Tensor, Tensor]:
    """Those that `SharedForward` gives."""
    forward = SharedForward(model, max_tokens=2, least_saved=0)
    with forward.active():
        cache, first = forward.start(wave)
        return first, forward.step([cache], after)


def sharing_refusal(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]] = (),
    *,
    ask: Ask = probed_logits,
    rounded: bool = False,
) -> str | None:
    """Why shared prompts, as ``ask`` runs them, do not give this model's own logits; or None.

    ``rounded`` asks within the autocast of the caller, else there is none.

    That is short of its `attention_window`, which the sampler asks for every batch.
    Computed as: three prompts of tokens of ``prompts``, two of which begin alike, and one more
    token each, with prompts in one copy and one by one; logits may lie apart by what rounding does
    to the model (`OwnLogits`). That finds ALiBi, attention sinks, biases, attention outside of
    transformers' registry, and whatever else is special; a model that lacks the arguments for it is
    not asked.
    """
    taken = inspect.signature(model.forward).parameters.keys()
    if missing := {"position_ids", "logits_to_keep"} - taken:
        return f"its forward takes no {min(missing)}"
    tokens = probe_tokens(model.config, prompts)
    asked = tuple(tuple(tokens[place] for place in prompt) for prompt in _PROMPTS)
    rows = tuple(WaveRow(0, i, prompt) for i, prompt in enumerate((0, 0, 1, 2)))
    after = torch.tensor([tokens[place] for place in _AFTER], device=model.device)
    alone = [([*asked[row.prompt], tokens[at]], 2) for row, at in zip(rows, _AFTER, strict=True)]
    with contextlib.nullcontext() if rounded else torch.autocast(model.device.type, enabled=False):
        try:
            first, second = ask(model, Wave(asked, rows), after)
        except (ModelError, KeyError, TypeError, RuntimeError) as error:
            # No layer numbers, layers that never called us, or an attention of the model's own.
            return " ".join(str(error).split()) or type(error).__name__
        ours = torch.stack([first, second], dim=1)
        if all(map(OwnLogits.agree_with, own_logits(model, alone), ours)):
            return None
    return "shared prompts change its logits"


def window_refusal(model: PreTrainedModel, tokens: int) -> str | None:
    """The reason why rows of this many tokens are not shared, a layer that sees fewer; or None."""
    window = attention_window(model)
    if tokens <= window:
        return None
    return f"a row may have {tokens} tokens, a layer attends to the last {window:g}"
