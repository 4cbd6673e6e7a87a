"""Decoding on a GPU in tensors that stay where they are, so that a token of all rows is one launch.

A step reads and writes nothing else: ages, last tokens, who is still drawn, random numbers, keys
and values, and what was drawn. Lengths are tables on the device, so one CUDA graph holds for rows
of all ages: a step runs as it is the first time that it has some number of rows, which warms up
libraries, and is replayed as a graph from then on. Attention of a step is a cascade of two calls
of torch's FlashAttention and a merge: over each row's own tokens, and over each prompt's tokens for
all of its rows at once, whose keys are so read once and not once a row (Juravsky et al.,
arXiv:2402.05099, section 3).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from dph.errors import ModelError
from dph.model.forward.kernels import Segments, flash, takes_flash
from dph.model.forward.packing import LEAST_SAVED, Span, to_device, tokens_of_spans
from dph.model.releases import attending
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.torch.decoding import ADMIT_ABOVE, LOOK_EVERY, DrawnRow, choose, drawn_rows
from dph.model.sampler.torch.prefill import (
    PREFILL_TOKENS,
    PrefillAttention,
    PrefillPart,
    layer_of,
    prefilled,
)
from dph.model.sampler.torch.waves import Capacity, Room, Waiting, Wave, WaveRow

BUCKET = 8
"""Rows are filled up to a multiple of this, so that few numbers of rows need a graph."""


def bucketed(rows: int) -> int:
    """Number of rows with those that fill up."""
    return -(-rows // BUCKET) * BUCKET


@dataclass(slots=True)
class _Layer:
    """Keys and values, tokens first: of the prompts one after the other, and of row after row."""

    prompt_keys: Float[Tensor, "prompt_tokens kv_heads size"]
    prompt_values: Float[Tensor, "prompt_tokens kv_heads size"]
    keys: Float[Tensor, "rows max_tokens kv_heads size"]
    values: Float[Tensor, "rows max_tokens kv_heads size"]


class RowsInPlace:
    """The rows of some prompts; those of a prompt are neighbours, in the order of the prompts.

    The first ``rows`` places of every table are in use. What fills them up behind the real rows
    was never live, and its tokens are not read. Memory for keys and values is taken with the first
    prompts.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        parameters: SamplingParameters,
        capacity: Capacity,
        *,
        least_saved: int = LEAST_SAVED,
    ) -> None:
        self.model, self.parameters, self.capacity = model, parameters, capacity
        self.least_saved = least_saved
        self.rows = 0
        self.prompts: list[tuple[int, ...]] = []
        self.counts: list[int] = []
        """Rows of each prompt; there may be none left."""
        self._layers: dict[int, _Layer] = {}
        device, most, drawn = model.device, capacity.rows, parameters.max_tokens
        self.age, self.length, self.last, self.live = (
            torch.zeros(most, dtype=torch.long, device=device) for _ in range(4)
        )
        # One more column than is read: a row that is done writes further tokens there.
        self.tokens = torch.zeros(most, drawn + 1, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(most, drawn + 1, device=device)
        self.uniforms = torch.zeros(most, drawn + 1, dtype=torch.float64, device=device)
        self._first = torch.arange(most, device=device) * drawn
        self._begins = torch.arange(most + 1, dtype=torch.int32, device=device)
        self._row_ends, self._token_ends = torch.zeros(
            2, most + 1, dtype=torch.int32, device=device
        ).unbind()
        self._goes_on: Tensor | None = None
        """0 for tokens that end a row, 1 for all others."""

    def admit(
        self, wave: Wave, uniforms: Float[Tensor, "steps rows"]
    ) -> Float[Tensor, "new vocabulary"]:
        """Run the prompts of a wave and draw the first token of its rows, behind all others.

        ``uniforms`` are as many numbers a row as it may draw tokens. Returns the logits of the
        first tokens.
        """
        first = self.real
        rows = slice(first, first + len(wave.rows))
        counts = np.bincount([row.prompt for row in wave.rows], minlength=len(wave.prompts))
        earlier = len(self.prompts)
        self.prompts += wave.prompts
        self.counts += counts.tolist()
        spans = self._spans()
        logits = prefilled(
            lambda part: self._run(part, [spans[earlier + place] for place in part.places]),
            wave.prompts,
            _KeptPrompts(self._layers, wave.prompts, spans[earlier:]),
            [_KeptPrompts(self._layers, self.prompts[:earlier], spans[:earlier])],
            device=self.model.device,
            most_tokens=PREFILL_TOKENS,
            least_saved=self.least_saved,
        )
        lengths = np.repeat([len(prompt) for prompt in wave.prompts], counts)
        prompt_of_row = np.repeat(np.arange(len(counts)), counts)
        (length, prompt) = to_device([lengths, prompt_of_row], self.model.device)
        self.length[rows], self.age[rows], self.live[rows] = length, 0, 1
        self.uniforms[rows, :-1] = uniforms.T
        of_rows = logits.index_select(0, prompt)
        self.draw(of_rows, first)
        self._fill_up()
        return of_rows

    @property
    def real(self) -> int:
        """Number of rows without those that fill up."""
        return sum(self.counts)

    def prompts_of(self, rows: Iterable[int]) -> list[int]:
        return sorted(set(np.repeat(np.arange(len(self.counts)), self.counts)[list(rows)].tolist()))

    def _fill_up(self) -> None:
        """Fill the rows up to a multiple of `BUCKET`, and note where each prompt's rows end."""
        real = self.real
        self.rows = min(bucketed(real), self.capacity.rows)
        self.age[real : self.rows], self.length[real : self.rows] = 1, 1
        self.live[real : self.rows] = self.last[real : self.rows] = 0
        unused = self.capacity.rows - len(self.prompts)
        ends = [*accumulate(self.counts)], [*accumulate(map(len, self.prompts))]
        ends[0][-1] = self.rows  # the last prompt's segment takes what fills up
        tables = [np.array([0, *end, *end[-1:] * unused], dtype=np.int32) for end in ends]
        for kept, table in zip(
            (self._row_ends, self._token_ends), to_device(tables, self.model.device), strict=True
        ):
            kept.copy_(table)

    def _spans(self) -> list[Span]:
        """Places of the prompts' tokens, one prompt after the other."""
        lengths = list(map(len, self.prompts))
        begins = accumulate(lengths, initial=0)
        return [Span(begin, length) for begin, length in zip(begins, lengths, strict=False)]

    def _run(self, part: PrefillPart, spans: Sequence[Span]) -> Float[Tensor, "prompts vocabulary"]:
        """One forward; ``spans`` are where its prompts are kept."""
        (there,) = to_device([tokens_of_spans(spans)], self.model.device)
        here = part.tokens()
        own = self.capacity.rows, self.parameters.max_tokens

        def keep(number: int, keys: Tensor, values: Tensor) -> None:
            if number not in self._layers:
                like, prompts = (keys, values), self.capacity.prompt_tokens
                self._layers[number] = _Layer(
                    *(x.new_empty(prompts, *x.shape[1:]) for x in like),
                    *(x.new_empty(*own, *x.shape[1:]) for x in like),
                )
            layer = self._layers[number]
            layer.prompt_keys.index_copy_(0, there, keys.index_select(0, here))
            layer.prompt_values.index_copy_(0, there, values.index_select(0, here))

        with attending(self.model, PrefillAttention(part, keep)):
            logits: Tensor = self.model(
                input_ids=part.rows.ids[None],
                attention_mask=torch.ones_like(part.rows.ids)[None],
                position_ids=part.rows.positions[None],
                use_cache=False,
                logits_to_keep=part.last,
            ).logits
        return logits[0]

    # A step: the same kernels on the same tensors, whatever the age of the rows.

    def advance(self) -> None:
        self.draw(self.logits())

    def logits(self) -> Float[Tensor, "rows vocabulary"]:
        """Append the newest token of every row to its keys and values; logits of the next."""
        rows = slice(0, self.rows)
        step = _Step(self, newest=self.age[rows] - 1)
        with attending(self.model, step):
            logits: Tensor = self.model(
                input_ids=self.last[rows][None],
                # Some models look for padding where there is none, and wait for the device.
                attention_mask=torch.ones_like(self.last[rows])[None],
                position_ids=(self.length[rows] + step.newest)[None],
                use_cache=False,
            ).logits
        return logits[0]

    def draw(self, logits: Float[Tensor, "drawn vocabulary"], first: int = 0) -> None:
        """Choose and record a token of each row from ``first`` on; of done rows it is not read."""
        rows = slice(first, first + len(logits))
        parameters, age, live = self.parameters, self.age[rows], self.live[rows]
        if self._goes_on is None:
            goes_on = np.ones(logits.shape[1], dtype=np.int64)
            goes_on[list(parameters.stop_token_ids)] = 0
            (self._goes_on,) = to_device([goes_on], logits.device)
        place = age[:, None]
        tokens, logprobs = choose(
            logits,
            self.uniforms[rows].gather(1, place)[:, 0],
            temperature=parameters.temperature,
            top_p=parameters.top_p,
            greedy=parameters.greedy,
        )
        self.tokens[rows].scatter_(1, place, tokens[:, None])
        self.logprobs[rows].scatter_(1, place, logprobs[:, None])
        self.last[rows].copy_(tokens)
        age.add_(live)
        live.mul_(self._goes_on.index_select(0, tokens)).mul_(age < parameters.max_tokens)

    def keep(self, kept: Sequence[int], *, oldest: int, prompts: bool) -> None:
        """Keep these rows, in ascending order, none of which has drawn over ``oldest`` tokens.

        With ``prompts``, those without a row leave too.
        """
        if not kept:
            self.prompts, self.counts, self.rows = [], [], 0
            return
        everybody = len(kept) == self.real
        ends = [*accumulate(self.counts, initial=0)]
        cuts = np.searchsorted(kept, ends)
        self.counts = np.diff(cuts).tolist()
        needed = [place for place, count in enumerate(self.counts) if count]
        if prompts and len(needed) < len(self.prompts):
            self._keep_prompts(needed)
        if not everybody:
            (index,) = to_device([np.array(kept, dtype=np.int64)], self.model.device)
            tables = (self.age, self.length, self.last, self.live)
            for table in (*tables, self.tokens, self.logprobs, self.uniforms):
                table[: len(kept)] = table.index_select(0, index)
            for layer in self._layers.values():
                for own in (layer.keys, layer.values):
                    own[: len(kept), :oldest] = own[:, :oldest].index_select(0, index)
        self._fill_up()

    def _keep_prompts(self, needed: Sequence[int]) -> None:
        spans = self._spans()
        tokens = tokens_of_spans([spans[place] for place in needed])
        (index,) = to_device([tokens], self.model.device)
        for layer in self._layers.values():
            for kept in (layer.prompt_keys, layer.prompt_values):
                kept[: len(index)] = kept.index_select(0, index)
        self.prompts = [self.prompts[place] for place in needed]
        self.counts = [self.counts[place] for place in needed]


def probed_logits(
    model: PreTrainedModel, wave: Wave, after: Int[Tensor, "rows"]
) -> tuple[Tensor, Tensor]:
    """The logits that `RowsInPlace` gives."""
    sizes = [len(prompt) for prompt in wave.prompts]
    rows = RowsInPlace(
        model,
        SamplingParameters(max_tokens=2, stop_token_ids=()),
        Capacity(len(wave.rows), sum(sizes), max(sizes), len(wave.rows)),
        least_saved=0,
    )
    first = rows.admit(wave, torch.zeros(2, len(wave.rows), device=model.device))
    rows.last[: len(after)] = after
    return first, rows.logits()


class _KeptPrompts(NamedTuple):
    """Prompts whose keys and values are kept in these spans; a `Lender`."""

    layers: Mapping[int, _Layer]
    prompts: Sequence[tuple[int, ...]]
    spans: Sequence[Span]

    def lent(self, layer: int, prompt: int, tokens: int) -> tuple[Tensor, Tensor]:
        kept, begin = self.layers[layer], self.spans[prompt].start
        there = slice(begin, begin + tokens)
        return kept.prompt_keys[there], kept.prompt_values[there]


class _Step:
    """Attention of one step; an `Attend` for every layer. Tables are made once, not a layer."""

    def __init__(self, rows: RowsInPlace, newest: Int[Tensor, "rows"]) -> None:
        self.rows, self.newest = rows, newest
        self.column = rows._first[: rows.rows] + newest
        self.used = ((newest + 1) * rows.live[: rows.rows]).int()  # done rows read no keys
        self._segments: dict[int, tuple[Segments, Segments]] = {}

    def segments(self, groups: int) -> tuple[Segments, Segments]:
        """The rows' own tokens, and the prompts', for ``groups`` query heads of a key head."""
        if groups not in self._segments:
            rows, capacity = self.rows, self.rows.capacity
            begins, drawn = rows._begins[: rows.rows + 1], rows.parameters.max_tokens
            most = groups * (capacity.samples + BUCKET - 1)
            self._segments[groups] = (
                Segments(begins * groups, begins * drawn, groups, drawn),
                Segments(rows._row_ends * groups, rows._token_ends, most, capacity.longest),
            )
        return self._segments[groups]

    def __call__(
        self,
        module: nn.Module,
        query: Float[Tensor, "1 heads rows size"],
        key: Float[Tensor, "1 kv_heads rows size"],
        value: Float[Tensor, "1 kv_heads rows size"],
        *,
        scaling: float | None = None,
        softcap: float | None = None,
        **_: Any,  # the prefill has seen them, and has not refused
    ) -> Float[Tensor, "1 rows heads size"]:
        """Keep the new token of every row; attend to its prompt and to its own tokens."""
        if not takes_flash(query, value, softcap=softcap):
            raise ModelError("its attention is not one that FlashAttention computes")
        layer = self.rows._layers[layer_of(module)]
        count, heads, size = query.shape[2], key.shape[1], key.shape[3]
        query, key, value = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))
        keys, values = layer.keys.flatten(0, 1), layer.values.flatten(0, 1)
        keys.index_copy_(0, self.column, key)
        values.index_copy_(0, self.column, value)
        # A key head's queries one after the other, as if they were tokens: no key is repeated.
        grouped = query.reshape(count, heads, -1, size).transpose(1, 2).flatten(0, 1)
        scaling = size**-0.5 if scaling is None else scaling
        of_rows, of_prompts = self.segments(len(grouped) // count)
        own = flash(grouped, keys, values, of_rows, scaling=scaling, used=self.used)
        prompt = flash(grouped, layer.prompt_keys, layer.prompt_values, of_prompts, scaling=scaling)
        weight = torch.sigmoid(prompt.log_sum - own.log_sum).T[..., None].to(own.out.dtype)
        mixed = torch.lerp(own.out, prompt.out, weight)
        return mixed.view(count, -1, heads, size).transpose(1, 2).reshape(1, count, -1, size)


# Decoding: the host looks at the rows from time to time, and lets others start in their places.


class CapturedSteps:
    """Runs a step as it is, then as a graph; a step that waits for the device is not captured."""

    def __init__(self, refusal: str | None, on_refusal: Callable[[str], None]) -> None:
        """Capture steps, unless there is a ``refusal``; ``on_refusal`` is called with a new one."""
        self.refusal, self._tell = refusal, on_refusal
        self._replays: dict[int, Callable[[], None] | None] = {}
        self._pool = None if refusal else torch.cuda.graph_pool_handle()

    def run(self, rows: RowsInPlace) -> None:
        """Take a step; one with as many rows must read and write the same tensors."""
        if self.refusal is not None:
            rows.advance()
        elif rows.rows not in self._replays:
            self._replays[rows.rows] = None
            self._warm_up(rows)
        else:
            replay = self._replays[rows.rows] or self._capture(rows)
            if replay is not None:
                replay()

    def _warm_up(self, rows: RowsInPlace) -> None:
        """A first step, in which nothing may wait for the device."""
        try:
            with _waits_refused():
                logits = rows.logits()
        except RuntimeError as error:
            self._refuse(error)
            logits = rows.logits()  # nothing but the newest keys was written: the same again
        rows.draw(logits)

    def _capture(self, rows: RowsInPlace) -> Callable[[], None] | None:
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads may use the device meanwhile. All graphs have one memory: what a step
            # makes on its way is not read after it.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                rows.advance()
        except RuntimeError as error:
            self._refuse(error)
            rows.advance()
            return None
        self._replays[rows.rows] = graph.replay
        return graph.replay

    def _refuse(self, error: RuntimeError) -> None:
        self.refusal = " ".join(str(error).split()) or type(error).__name__
        self._tell(self.refusal)


@contextmanager
def _waits_refused() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():  # it is a prototype, says torch
        warnings.filterwarnings("ignore", message="Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


_COMPACT_BELOW = 0.5
"""Finished rows leave once rows in use would become at most this share of what they are. A new
number of rows takes a step as it is and a capture, as long as dozens of replayed tokens; rows that
are done read no keys, and cost next to nothing while products are bound by reading the weights."""


@dataclass(slots=True)
class GraphDecoder:
    """Decodes what waits; the capacity of ``rows`` is that of ``waiting.limit``."""

    rows: RowsInPlace
    waiting: Waiting
    steps: CapturedSteps
    uniforms: Callable[[Wave], Float[Tensor, "steps rows"]]
    _open: dict[int, WaveRow] = field(default_factory=dict, init=False)
    """Rows that were not handed out yet, by their places."""
    _ages: list[int] = field(default_factory=list, init=False)

    def run(self) -> Iterator[list[DrawnRow]]:
        """Rows, as soon as they are seen to be done."""
        while self._open or self.waiting:
            if not self._start():  # or a first token may be the last
                if bucketed(len(self._open)) <= _COMPACT_BELOW * self.rows.rows:
                    self._keep(prompts=False)
                oldest = min(self._ages[place] for place in self._open)
                for _ in range(min(LOOK_EVERY["cuda"], self.rows.parameters.max_tokens - oldest)):
                    self.steps.run(self.rows)
            if done := self._look():
                yield done

    def _start(self) -> bool:
        """True if waiting rows have started, in the places of rows that have ended."""
        limit, free = self.waiting.limit, self.waiting.limit.rows - len(self._open)
        if not self.waiting or (self._open and free < ADMIT_ABOVE * limit.rows):
            return False
        used = sum(len(self.rows.prompts[place]) for place in self.rows.prompts_of(self._open))
        wave = self.waiting.next_wave(Room(rows=free, tokens=limit.tokens - used))
        if wave is None:
            return False
        self._keep(prompts=True)
        self._open |= dict(enumerate(wave.rows, start=len(self._open)))
        self.rows.admit(wave, self.uniforms(wave))
        return True

    def _keep(self, *, prompts: bool) -> None:
        """Let rows that are done leave, and with ``prompts`` those that have no row any more."""
        kept = sorted(self._open)
        self.rows.keep(kept, oldest=max(self._ages, default=0), prompts=prompts)
        self._open = {place: self._open[old] for place, old in enumerate(kept)}
        self._ages = [self._ages[old] for old in kept]

    def _look(self) -> list[DrawnRow]:
        """Rows that were seen to be done. Waits for the device."""
        rows = self.rows
        ages, live = torch.stack([rows.age, rows.live])[:, : rows.rows].cpu().numpy()
        self._ages = ages.tolist()
        done = [place for place in self._open if not live[place]]
        if not done:
            return []
        index = torch.tensor(done, device=rows.age.device)
        tokens, logprobs = (
            x.index_select(0, index).cpu().numpy() for x in (rows.tokens, rows.logprobs)
        )
        drawn = [self._open.pop(place) for place in done]
        return list(drawn_rows(drawn, tokens, logprobs, ages[done], rows.parameters))
