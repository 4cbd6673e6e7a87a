"""Decoding: rows start when there is room, draw token by token together, and leave when done.

A model's own forward can decode every model, with the cache that transformers makes or without one;
`SharedForward` does it faster.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel

from dph.errors import ModelError
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.torch.waves import Room, Waiting, Wave, WaveRow

# The nucleus: the fewest most likely tokens that together reach a probability.

_PREFIX = 256
"""Tokens that are looked at first: a real model's nucleus is smaller, and sorting them is cheap."""


def nucleus(
    probabilities: Float[Tensor, "rows vocabulary"], *, top_p: float
) -> Float[Tensor, "rows vocabulary"]:
    """1 for the fewest most likely tokens that together reach ``top_p``, else 0.

    Source: Holtzman et al., "The curious case of neural text degeneration" (2020), section 3.1.
    Ties are broken in favour of the smaller token id.
    Computed as: everything above the least likely value that is still needed, and as many tokens
    of that value as there is room for; this needs sorted values, not their order. The largest 256
    values come first; all are sorted only for the rows where those do not reach ``top_p``.
    """
    ordered = _largest(probabilities, _PREFIX)
    count, least = _bound(ordered, top_p)
    if ordered.shape[1] < probabilities.shape[1]:
        short = (ordered.sum(dim=-1, dtype=torch.float64) < top_p).nonzero()[:, 0]
        if len(short):
            rows = probabilities.index_select(0, short)
            count[short], least[short] = _bound(_largest(rows, rows.shape[1]), top_p)
    kept = probabilities >= least
    crowded = (kept.sum(dim=-1, keepdim=True) > count).nonzero()[:, 0]
    if len(crowded):
        rows, bound = probabilities[crowded], least[crowded]
        above, tied = rows > bound, rows == bound
        room = count[crowded] - above.sum(dim=-1, keepdim=True)
        kept[crowded] = above | (tied & (tied.cumsum(dim=-1) <= room))
    return kept.to(probabilities.dtype)


def _bound(ordered: Float[Tensor, "rows values"], top_p: float) -> tuple[Tensor, Tensor]:
    """Number of the largest values that are needed, and the smallest of them."""
    before = ordered.cumsum(dim=-1, dtype=torch.float64) - ordered
    count = (before < top_p).sum(dim=-1, keepdim=True).clamp_(min=1)
    return count, ordered.gather(1, count - 1)


def _largest(values: Float[Tensor, "rows vocabulary"], count: int) -> Float[Tensor, "rows count"]:
    """In descending order."""
    count = min(count, values.shape[1])
    if values.device.type != "cpu":
        return values.topk(count, dim=-1).values
    # NumPy partitions and sorts values without indices, several times as fast as torch on a CPU.
    found = values.numpy()
    if count < values.shape[1]:
        found = np.partition(found, values.shape[1] - count, axis=-1)[:, -count:]
    return torch.from_numpy(np.sort(found, axis=-1)[:, ::-1].copy())


_BLOCK = 64


class ChosenTokens(NamedTuple):
    """Log-probs (nats) are those of the full vocabulary at the temperature."""

    tokens: Int[Tensor, "rows"]
    logprobs: Float[Tensor, "rows"]


def choose(
    logits: Float[Tensor, "rows vocabulary"],
    uniforms: Float[Tensor, "rows"],
    *,
    temperature: float,
    top_p: float = 1.0,
    greedy: bool = False,
) -> ChosenTokens:
    """Draw one token a row by inverting its cumulative distribution.

    Equation: token = min { i : sum_{j <= i} p_j > uniform * sum_j p_j }, p = softmax(logits /
    temperature) over the nucleus. A token of probability 0 is never chosen.
    Computed as: one pass of exp in float32, sums of blocks of 64 tokens, the cumulative sum of
    those in float64, then the cumulative sum inside the block that the uniform number falls into;
    all in vocabulary order, so that rounding in one row cannot reorder its tokens.
    Accuracy: 1e-6 of the probability of a token's block; the log-prob is that of float32.
    Limits: ``greedy`` takes the first largest logit and reads neither ``uniforms`` nor ``top_p``.
    """
    scores = logits.float()
    if temperature != 1:
        scores = scores / temperature
    largest = scores.amax(dim=-1, keepdim=True)
    weights = (scores - largest).exp_()
    ends = _block_sums(weights).cumsum(dim=-1, dtype=torch.float64)
    log_total = ends[:, -1].log()
    if greedy:
        tokens = scores.argmax(dim=-1)
    else:
        if top_p < 1:
            weights *= nucleus(weights / ends[:, -1:].float(), top_p=top_p)
            ends = _block_sums(weights).cumsum(dim=-1, dtype=torch.float64)
        tokens = _invert(weights, ends, uniforms)
    chosen = (scores.gather(1, tokens[:, None]) - largest)[:, 0]
    return ChosenTokens(tokens, (chosen - log_total).float())


def _block_sums(weights: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows blocks"]:
    """The last block may be shorter."""
    whole = weights.shape[1] // _BLOCK * _BLOCK
    sums = weights[:, :whole].reshape(len(weights), -1, _BLOCK).sum(dim=-1)
    if whole == weights.shape[1]:
        return sums
    return torch.cat([sums, weights[:, whole:].sum(dim=-1, keepdim=True)], dim=1)


def _invert(
    weights: Float[Tensor, "rows vocabulary"],
    ends: Float[Tensor, "rows blocks"],
    uniforms: Float[Tensor, "rows"],
) -> Int[Tensor, "rows"]:
    """The first token whose cumulative weight exceeds the share ``uniforms`` of the whole."""
    target = uniforms[:, None] * ends[:, -1:]
    # NaN logits end beyond the vocabulary; the clamps let the caller see their NaN log-prob.
    block = torch.searchsorted(ends, target, right=True).clamp_(max=ends.shape[1] - 1)
    before = torch.where(block > 0, ends.gather(1, (block - 1).clamp_(min=0)), 0.0)
    members = block * _BLOCK + torch.arange(_BLOCK, device=weights.device)
    last = weights.shape[1] - 1
    inside = weights.gather(1, members.clamp(max=last)) * (members <= last)
    inner = inside.cumsum(dim=-1, dtype=torch.float64)
    # The block's sum in float32 may exceed the one here, which must stay out of reach.
    rest = torch.minimum(target - before, inner[:, -1:] * (1 - 2.0**-40))
    offset = torch.searchsorted(inner, rest, right=True)
    return (block * _BLOCK + offset)[:, 0].clamp_(max=last)


class DrawnRow(NamedTuple):
    """A completed row: its tokens up to and including the first stop token, and their log-probs."""

    row: WaveRow
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: bool


class Cohort:
    """A wave's rows: all have drawn ``age`` tokens; those that are done leave from time to time."""

    def __init__(
        self,
        wave: Wave,
        cache: Any,
        uniforms: Float[Tensor, "steps rows"],
        parameters: SamplingParameters,
    ) -> None:
        self.wave = wave
        self.cache = cache
        self.parameters = parameters
        self.age = 0
        self._uniforms = uniforms
        self._tokens = torch.zeros(uniforms.shape, dtype=torch.long, device=uniforms.device)
        self._logprobs = torch.zeros(uniforms.shape, device=uniforms.device)
        self._rows = torch.arange(uniforms.shape[1], device=uniforms.device)
        self._live = torch.ones_like(self._rows, dtype=torch.bool)
        self._open = self._live.clone()
        """Of all rows, those that were not handed out yet."""
        self.unfinished = len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def next_uniforms(self) -> Float[Tensor, "rows"]:
        return self._uniforms[self.age].index_select(0, self._rows)

    def record(
        self, tokens: Int[Tensor, "rows"], logprobs: Float[Tensor, "rows"], stops: Tensor
    ) -> None:
        self._tokens[self.age].index_copy_(0, self._rows, tokens)
        self._logprobs[self.age].index_copy_(0, self._rows, logprobs)
        self.age += 1
        self._live &= ~stops

    def last_tokens(self) -> Int[Tensor, "rows"]:
        return self._tokens[self.age - 1].index_select(0, self._rows)

    def hand_out(self) -> list[DrawnRow]:
        """The rows that are done and were not handed out yet. Waits for the device."""
        full = self.age == self.parameters.max_tokens
        live = 0 if full else int(self._live.sum())
        if live == self.unfinished:
            return []
        self.unfinished = live
        going = torch.zeros_like(self._open)
        if not full:
            going[self._rows] = self._live
        done = (self._open & ~going).nonzero()[:, 0]
        self._open = going
        tokens = self._tokens[: self.age].index_select(1, done).T.cpu().numpy()
        logprobs = self._logprobs[: self.age].index_select(1, done).T.cpu().numpy()
        stops = np.isin(tokens, self.parameters.stop_token_ids)
        lengths = np.where(stops.any(axis=1), stops.argmax(axis=1) + 1, self.age)
        rows = [self.wave.rows[row] for row in done.tolist()]
        return list(drawn_rows(rows, tokens, logprobs, lengths, self.parameters))

    def compact(self, *, below: float) -> None:
        """Let the finished rows leave once the share of unfinished ones falls under ``below``."""
        if self.unfinished >= below * len(self._rows):
            return
        kept = self._live.nonzero()[:, 0]
        self.cache.select(kept)
        self._rows = self._rows.index_select(0, kept)
        self._live = self._live.index_select(0, kept)


def drawn_rows(
    rows: Sequence[WaveRow],
    tokens: NDArray[np.int64],
    logprobs: NDArray[np.float32],
    lengths: NDArray[np.int64],
    parameters: SamplingParameters,
) -> Iterator[DrawnRow]:
    for row, ids, values, length in zip(rows, tokens, logprobs, lengths.tolist(), strict=True):
        if not np.isfinite(values[:length]).all():
            raise ModelError(
                "the model returns log-probs that are not finite: its weights are unusable"
            )
        yield DrawnRow(
            row=row,
            token_ids=tuple(ids[:length].tolist()),
            logprobs=tuple(values[:length].tolist()),
            finished=int(ids[length - 1]) in parameters.stop_token_ids,
        )


COMPACT_BELOW = 0.8
"""Finished rows leave the batch once the share of unfinished ones falls below this."""
ADMIT_ABOVE = 0.25
"""Waiting rows start once this share of all rows is free: a prefill for each of them would cost
more."""
LOOK_EVERY = {"cpu": 1, "cuda": 16}
"""Steps between two looks for finished rows: on a GPU a look waits for all that was queued."""


class DecodingForward(Protocol):
    """Runs a model: `SharedForward`, `RepeatedForward` or `WholeForward`, each with its own cache.

    A cache says how many ``tokens`` it has space for, and can ``select`` some of its rows, in
    ascending order.
    """

    joins: bool
    """True if waves are decoded in one forward: one may start while others continue."""

    def start(
        self, wave: Wave, living: Sequence[Any]
    ) -> tuple[Any, Float[Tensor, "rows vocabulary"]]:
        """Run the prompts of a wave, next to the caches of waves that are still being decoded.

        Returns its cache and the logits of each row's first token.
        """
        ...

    def step(
        self, caches: Sequence[Any], tokens: Int[Tensor, "rows"]
    ) -> Float[Tensor, "rows vocabulary"]:
        """Append one token to every row of all waves; return the logits of the next."""
        ...


@dataclass(slots=True)
class Decoder:
    """Decodes what waits, within ``waiting.limit``."""

    forward: DecodingForward
    waiting: Waiting
    parameters: SamplingParameters
    uniforms: Callable[[Wave], Float[Tensor, "steps rows"]]
    cohorts: list[Cohort] = field(default_factory=list, init=False)
    _is_stop: Tensor | None = field(default=None, init=False)

    def run(self) -> Iterator[list[DrawnRow]]:
        logits: list[Tensor] = []
        while True:
            logits += self._admit()
            if not self.cohorts:
                return
            together = torch.cat(logits) if len(logits) > 1 else logits[0]
            look_every = LOOK_EVERY.get(together.device.type, 1)
            self._draw(together)
            for cohort in self.cohorts:
                due = cohort.age % look_every == 0 or cohort.age == self.parameters.max_tokens
                if due and (drawn := cohort.hand_out()):
                    yield drawn
            self.cohorts = [cohort for cohort in self.cohorts if cohort.unfinished]
            for cohort in self.cohorts:
                cohort.compact(below=COMPACT_BELOW)
            logits = []
            if self.cohorts:
                tokens = torch.cat([cohort.last_tokens() for cohort in self.cohorts])
                caches = [cohort.cache for cohort in self.cohorts]
                logits.append(self.forward.step(caches, tokens))

    def _admit(self) -> list[Float[Tensor, "rows vocabulary"]]:
        """Start what there is room for; the logits of the new rows."""
        logits = []
        while self.waiting and (not self.cohorts or self.forward.joins):
            limit = self.waiting.limit
            free = Room(
                rows=limit.rows - sum(map(len, self.cohorts)),
                tokens=limit.tokens - sum(cohort.cache.tokens for cohort in self.cohorts),
            )
            if self.cohorts and free.rows < ADMIT_ABOVE * limit.rows:
                break
            wave = self.waiting.next_wave(free)
            if wave is None:
                break
            cache, first = self.forward.start(wave, [cohort.cache for cohort in self.cohorts])
            self.cohorts.append(Cohort(wave, cache, self.uniforms(wave), self.parameters))
            logits.append(first)
        return logits

    def _draw(self, logits: Float[Tensor, "rows vocabulary"]) -> None:
        parameters = self.parameters
        if self._is_stop is None:
            self._is_stop = logits.new_zeros(logits.shape[1], dtype=torch.bool)
            self._is_stop[list(parameters.stop_token_ids)] = True
        tokens, logprobs = choose(
            logits,
            torch.cat([cohort.next_uniforms() for cohort in self.cohorts]),
            temperature=parameters.temperature,
            top_p=parameters.top_p,
            greedy=parameters.greedy,
        )
        stops = self._is_stop[tokens]
        sizes = list(map(len, self.cohorts))
        parts = zip(*(torch.split(x, sizes) for x in (tokens, logprobs, stops)), strict=True)
        for cohort, part in zip(self.cohorts, parts, strict=True):
            cohort.record(*part)


@dataclass(slots=True)
class RepeatedCache:
    """The cache of one wave, with the prompts repeated for each row and padded on the left."""

    cache: DynamicCache
    mask: Int[Tensor, "rows width"]
    positions: Int[Tensor, "rows 1"]

    @property
    def tokens(self) -> int:
        return int(self.mask.numel())

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep or repeat rows."""
        self.cache.batch_select_indices(kept)
        self.mask = self.mask.index_select(0, kept)
        self.positions = self.positions.index_select(0, kept)


class RepeatedForward:
    """Prefills each prompt once, repeats its cache for its rows, and decodes wave by wave.

    Right for sliding windows, ALiBi and everything else that transformers caches token by token.
    ``argument`` is the name of the cache in the model's forward.
    """

    joins = False

    def __init__(self, model: PreTrainedModel, argument: str) -> None:
        self.model, self.argument = model, argument
        accepted = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in accepted
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}

    def start(
        self, wave: Wave, living: Sequence[RepeatedCache] = ()
    ) -> tuple[RepeatedCache, Float[Tensor, "rows vocabulary"]]:
        del living  # nothing can be taken from another wave
        device = self.model.device
        width = max(map(len, wave.prompts))
        padded = [(0,) * (width - len(prompt)) + prompt for prompt in wave.prompts]
        lengths = torch.tensor([len(prompt) for prompt in wave.prompts], device=device)
        padding = (width - lengths)[:, None]
        columns = torch.arange(width, device=device)
        mask = (columns >= padding).long()
        cache = RepeatedCache(DynamicCache(config=self.model.config), mask, lengths[:, None])
        positions = (columns - padding).clamp(min=0)
        logits = self._run(cache, torch.tensor(padded, device=device), positions)
        prompt_of_row = torch.tensor([row.prompt for row in wave.rows], device=device)
        cache.select(prompt_of_row)
        return cache, logits.index_select(0, prompt_of_row)

    def step(
        self, caches: Sequence[RepeatedCache], tokens: Int[Tensor, "rows"]
    ) -> Float[Tensor, "rows vocabulary"]:
        logits = []
        parts = torch.split(tokens, [len(cache.mask) for cache in caches])
        for cache, drawn in zip(caches, parts, strict=True):
            cache.mask = torch.cat([cache.mask, cache.mask.new_ones(len(cache.mask), 1)], dim=1)
            logits.append(self._run(cache, drawn[:, None], cache.positions))
            cache.positions = cache.positions + 1
        return torch.cat(logits)

    def _run(self, cache: RepeatedCache, tokens: Tensor, positions: Tensor) -> Tensor:
        options = {"position_ids": positions} if self._takes_positions else {}
        output = self.model(
            input_ids=tokens,
            attention_mask=cache.mask,
            use_cache=True,
            **{self.argument: cache.cache},
            **options,
            **self._options,
        )
        logits: Tensor = output.logits[:, -1]
        return logits


@dataclass(slots=True)
class WholeRows:
    """The tokens of one wave's rows, each behind its prompt and padded on the right."""

    ids: Int[Tensor, "rows width"]
    lengths: Int[Tensor, "rows"]

    @property
    def tokens(self) -> int:
        return self.ids.numel()

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep or repeat rows."""
        self.ids = self.ids.index_select(0, kept)
        self.lengths = self.lengths.index_select(0, kept)


class WholeForward:
    """Runs every row from its first token for each of its tokens: slow, but needs no cache.

    Right for every causal model, because no token sees the padding behind it.
    """

    joins = False

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model

    def start(
        self, wave: Wave, living: Sequence[WholeRows] = ()
    ) -> tuple[WholeRows, Float[Tensor, "rows vocabulary"]]:
        del living  # nothing can be taken from another wave
        prompts = [torch.tensor(prompt) for prompt in wave.prompts]
        lengths = torch.tensor(list(map(len, prompts)), device=self.model.device)
        rows = WholeRows(pad_sequence(prompts, batch_first=True).to(lengths.device), lengths)
        logits = self._run(rows)
        prompt_of_row = torch.tensor([row.prompt for row in wave.rows], device=lengths.device)
        rows.select(prompt_of_row)
        return rows, logits.index_select(0, prompt_of_row)

    def step(
        self, caches: Sequence[WholeRows], tokens: Int[Tensor, "rows"]
    ) -> Float[Tensor, "rows vocabulary"]:
        parts = torch.split(tokens, [len(rows.ids) for rows in caches])
        for rows, drawn in zip(caches, parts, strict=True):
            rows.ids = pad(rows.ids, (0, 1))
            rows.ids.scatter_(1, rows.lengths[:, None], drawn[:, None])
            rows.lengths = rows.lengths + 1
        return torch.cat([self._run(rows) for rows in caches])

    def _run(self, rows: WholeRows) -> Tensor:
        columns = torch.arange(rows.ids.shape[1], device=rows.ids.device)
        mask = (columns < rows.lengths[:, None]).long()
        output = self.model(input_ids=rows.ids, attention_mask=mask, use_cache=False)
        rows_of_batch = torch.arange(len(mask), device=mask.device)
        last: Tensor = output.logits[rows_of_batch, rows.lengths - 1]
        return last
