"""Forward passes of a model whose rows share their prompts' keys and values.

The cache of a wave has one copy of each prompt, and each row's own tokens.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from dph.errors import ModelError
from dph.model.forward.kernels import AttentionPart, Scoring, kernel_for, merge_evenly
from dph.model.forward.packing import LEAST_SAVED, to_device
from dph.model.forward.probing import OwnLogits, own_logits, probe_tokens
from dph.model.releases import Attend, attending, attention_window
from dph.model.sampler.torch.prefill import (
    PREFILL_TOKENS,
    PrefillAttention,
    PrefillPart,
    layer_of,
    prefilled,
)
from dph.model.sampler.torch.waves import Wave, WaveRow, padded_width

LEAST_QUERIES = 4
"""CPU kernels round one to three queries, and three that are left over, differently from the same
queries next to others: a row's tokens would depend on how many others are left."""


class PromptTable(NamedTuple):
    """The prompt that each row reads, as a table of prompts and their rows.

    ``slots`` is None where every prompt has ``width`` rows; else it gives each row a place in a
    table of ``prompts`` x ``width``, and ``sources`` gives each place of the table a row.
    """

    prompts: int
    width: int
    slots: Int[Tensor, "rows"] | None = None
    sources: Int[Tensor, "places"] | None = None


def prompt_table(prompt_of_row: Int[Tensor, "rows"], *, prompts: int) -> PromptTable:
    """``prompt_of_row`` is sorted."""
    counts = torch.bincount(prompt_of_row, minlength=prompts)
    width = int(counts.max())
    if width * prompts == len(prompt_of_row):
        return PromptTable(prompts, width)
    first = counts.cumsum(0) - counts
    rows = torch.arange(len(prompt_of_row), device=prompt_of_row.device)
    slots = prompt_of_row * width + rows - first[prompt_of_row]
    sources = slots.new_zeros(prompts * width).index_copy_(0, slots, rows)
    return PromptTable(prompts, width, slots, sources)


def attend_prompts(
    query: Float[Tensor, "rows kv_heads repeats key"],
    key: Float[Tensor, "prompts kv_heads tokens key"],
    value: Float[Tensor, "prompts kv_heads tokens value"],
    table: PromptTable,
    scoring: Scoring,
) -> AttentionPart:
    """Attention of every row over the whole of its prompt.

    Computed as: one product for each prompt and key-value head, with the queries of all its rows
    and of all heads that share the key-value head side by side.
    """
    prompts, width = table.prompts, table.width
    _, heads, repeats, size = query.shape
    if table.sources is not None:
        query = query.index_select(0, table.sources)
    folded = query.view(prompts, width, heads, repeats, size).transpose(1, 2)
    queries = width * repeats
    filled = pad(folded.reshape(prompts, heads, queries, size), (0, 0, 0, -queries % LEAST_QUERIES))
    part = kernel_for(query, value, softcap=scoring.softcap).forward(filled, key, value, scoring)
    out, log_sum = part.out[:, :, :queries], part.log_sum[:, :, :queries]
    shape = (prompts, heads, width, repeats)
    out = out.reshape(*shape, -1).transpose(1, 2).reshape(prompts * width, heads, repeats, -1)
    log_sum = log_sum.reshape(shape).transpose(1, 2).reshape(prompts * width, heads, repeats)
    if table.slots is not None:
        out, log_sum = out.index_select(0, table.slots), log_sum.index_select(0, table.slots)
    return AttentionPart(out, log_sum)


_COMPACT_PROMPTS_BELOW = 0.5


@dataclass(slots=True)
class _Layer:
    prompt_keys: Float[Tensor, "prompts kv_heads width key"]
    prompt_values: Float[Tensor, "prompts kv_heads width value"]
    keys: Float[Tensor, "rows kv_heads capacity key"]
    values: Float[Tensor, "rows kv_heads capacity value"]


class SharedCache:
    """The cache of one wave; its rows have all drawn the same number of tokens.

    Each prompt is kept whole, even if others begin alike: reading what they share once in every
    step would save nothing on a CPU (docs/performance.md).

    Memory: prompts x longest prompt + rows x ``capacity`` tokens, allocated with the first tokens
    of each layer. Rows that leave give theirs back.
    """

    def __init__(self, wave: Wave, *, capacity: int, device: torch.device) -> None:
        self.prompts: tuple[tuple[int, ...], ...] = wave.prompts
        self.capacity = capacity
        self.used = 0
        self.lengths = torch.tensor([len(prompt) for prompt in wave.prompts], device=device)
        self.width = padded_width(max(map(len, wave.prompts)))
        self.prompt_of_row = torch.tensor([row.prompt for row in wave.rows], device=device)
        self.positions = self.lengths.index_select(0, self.prompt_of_row)
        self.layers: dict[int, _Layer] = {}
        self._share()

    @property
    def rows(self) -> int:
        return len(self.prompt_of_row)

    @property
    def tokens(self) -> int:
        """The tokens there is memory for."""
        return len(self.lengths) * self.width + self.rows * self.capacity

    def store_prompts(
        self,
        layer: int,
        places: Int[Tensor, "prompts"],
        keys: Float[Tensor, "prompts width kv_heads key"],
        values: Float[Tensor, "prompts width kv_heads value"],
    ) -> None:
        """Keep the keys and values of the prompts at ``places``, padded at the end."""
        tables = keys.transpose(1, 2), values.transpose(1, 2)
        if layer not in self.layers:
            # Zero, because what is masked must still be finite: 0 * NaN is NaN.
            self.layers[layer] = _Layer(
                *(
                    x.new_zeros(len(self.lengths), *x.shape[1:2], self.width, x.shape[3])
                    for x in tables
                ),
                *(self._own(x, self.rows) for x in tables),
            )
        stored, width = self.layers[layer], keys.shape[1]
        stored.prompt_keys[places, :, :width], stored.prompt_values[places, :, :width] = tables

    def lent(
        self, layer: int, prompt: int, tokens: int
    ) -> tuple[Float[Tensor, "tokens kv_heads key"], Float[Tensor, "tokens kv_heads value"]]:
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
        stored.keys[:, :, self.used], stored.values[:, :, self.used] = key, value
        end = self.used + 1
        rows, heads = key.shape[:2]
        grouped = query.reshape(rows, heads, -1, query.shape[2])
        # Kernels that masks can be added to, because prompts are padded.
        own = kernel_for(query, value, softcap=softcap).forward(
            grouped, stored.keys[:, :, :end], stored.values[:, :, :end], Scoring(scaling, softcap)
        )
        prompt = attend_prompts(
            grouped,
            stored.prompt_keys,
            stored.prompt_values,
            self.table,
            Scoring(scaling, softcap, bias=self.bias),
        )
        return merge_evenly(prompt, own).reshape(rows, query.shape[1], -1)

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep these rows and the prompts that they need."""
        self.prompt_of_row = self.prompt_of_row.index_select(0, kept)
        self.positions = self.positions.index_select(0, kept)
        for layer in self.layers.values():
            layer.keys = self._selected(layer.keys, kept)
            layer.values = self._selected(layer.values, kept)
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

    def _selected(self, old: Tensor, kept: Int[Tensor, "kept"]) -> Tensor:
        new = self._own(old, len(kept))
        torch.index_select(old[:, :, : self.used], 0, kept, out=new[:, :, : self.used])
        return new

    def _own(self, like: Float[Tensor, "_ kv_heads _ size"], rows: int) -> Tensor:
        return like.new_empty(rows, like.shape[1], self.capacity, like.shape[3])

    def _share(self) -> None:
        self.table = prompt_table(self.prompt_of_row, prompts=len(self.lengths))
        columns = torch.arange(self.width, device=self.lengths.device)
        padding = columns >= self.lengths[:, None]
        bias = torch.zeros(padding.shape, device=padding.device).masked_fill_(padding, -torch.inf)
        self.bias = bias[:, None, None] if bool(padding.any()) else None


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

    def __init__(
        self, model: PreTrainedModel, *, max_tokens: int, least_saved: int = LEAST_SAVED
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
        """Run what prompts begin with alike once, and not at all if a ``living`` cache has it."""
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
        def attend(
            module: nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any
        ) -> Tensor:
            parts, first, layer = [], 0, layer_of(module)
            # Of all options; windows and dropout change nothing, see `sharing_refusal`.
            scaling = options.get("scaling")
            scaling = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
            mixing: dict[str, Any] = {"scaling": scaling, "softcap": options.get("softcap")}
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
        logits = self._run(tokens, torch.cat([cache.positions for cache in caches]))
        for cache in caches:
            cache.used += 1
            cache.positions += 1
        return logits

    def _prefill(
        self, cache: SharedCache, part: PrefillPart
    ) -> Float[Tensor, "prompts vocabulary"]:
        width = padded_width(max(map(len, part.prompts)))
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
    """At least `LEAST_ROWS` values: the last one, which is surely valid, is repeated."""
    return torch.cat([values, values[-1:].expand(max(LEAST_ROWS - len(values), 0))])


_PROMPTS = ((3, 1, 4), (3, 1, 5), (5,))
"""Of which tokens of a probe; shorter than any window worth asking about; two begin alike."""
_AFTER = (0, 1, 2, 3)
"""The token that follows, for each row."""


Ask = Callable[[PreTrainedModel, Wave, Tensor], tuple[Tensor, Tensor]]
"""Logits of the rows of a wave behind their prompts, and behind one more token each."""


def probed_logits(
    model: PreTrainedModel, wave: Wave, after: Int[Tensor, "rows"]
) -> tuple[Tensor, Tensor]:
    """The logits that `SharedForward` gives."""
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

    ``rounded`` asks within the autocast of the caller, otherwise there is none. Rows longer than
    the model's `attention_window` are another question (`window_refusal`), asked for every batch.
    Computed as: three prompts of tokens of ``prompts``, two of which begin alike, and one more
    token each, with prompts in one copy and one by one; logits may differ by rounding
    (`OwnLogits`). That finds ALiBi, attention sinks, biases, attention outside of transformers'
    registry, and other special cases; a model that lacks the arguments for it is not asked.
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
        except torch.OutOfMemoryError:
            raise
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
