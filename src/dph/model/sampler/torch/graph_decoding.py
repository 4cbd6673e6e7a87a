"""Decoding on a GPU: a token of all rows is one launch.

A step of `RowsInPlace` runs as it is the first time that it has some number of rows, which warms up
libraries; from then on it is replayed as a CUDA graph. The host looks at the rows from time to
time, hands out those that are done, and lets others start in their places.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from dph.errors import SettingsError
from dph.model.sampler.base import SampleRequest
from dph.model.sampler.torch.decoding import ADMIT_ABOVE, LOOK_EVERY, DrawnRow, drawn_rows
from dph.model.sampler.torch.rows_in_place import Capacity, RowsInPlace, bucketed
from dph.model.sampler.torch.waves import Room, Waiting, Wave, WaveRow

_SHARE = 0.85
"""Of the free memory; the rest is for what a forward makes on its way."""
_OF_A_LOGIT = 18
"""Bytes of a word's logit in a step: in 16 bits, in float32, as a weight, and in sums of blocks."""


def room_in_memory(model: PreTrainedModel, *, max_tokens: int, width: int) -> Room:
    """Rows and tokens that fit into the free memory of a GPU, next to the logits of a step.

    ``width`` is the number of bytes of a number in the cache.
    """
    free, _ = torch.cuda.mem_get_info(model.device)
    free += torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    kept = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    token = 2 * width * config.num_hidden_layers * kept * size
    logits = _OF_A_LOGIT * config.vocab_size
    rows = max(1, int(_SHARE * free / (max_tokens * token + logits)))
    return Room(rows=rows, tokens=max(0, int((_SHARE * free - rows * logits) / token)))


def capacity_of(requests: Sequence[SampleRequest], limit: Room, *, max_tokens: int) -> Capacity:
    """All rows at once where they fit into ``limit``, else as many as fit with their prompts."""
    wanted: Counter[tuple[int, ...]] = Counter()
    for request in requests:
        wanted[request.prompt_ids] += request.samples
    wanted = +wanted
    longest, rows = max(map(len, wanted), default=0), wanted.total()
    if longest + max_tokens > limit.tokens:
        raise SettingsError(
            f"a prompt of {longest} tokens and max_tokens = {max_tokens} do not fit into "
            f"cache_tokens = {limit.tokens}"
        )
    tokens = sum(map(len, wanted))
    share = limit.tokens / (tokens + rows * max_tokens)
    fitting = min(int(share * rows), (limit.tokens - longest) // max_tokens)
    most = max(1, min(rows, limit.rows, fitting))
    again = longest if most < rows else 0  # a prompt whose last rows start after its first
    return Capacity(
        rows=most,
        prompt_tokens=min(tokens + again, limit.tokens - most * max_tokens),
        longest=longest,
        samples=max(wanted.values()),
    )


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


COMPACT_BELOW = 0.5
"""Finished rows leave once rows in use would become at most this share of what they are. A new
number of rows takes a step as it is and a capture, as long as dozens of replayed tokens; rows that
are done read no keys, and cost next to nothing while products are bound by reading the weights."""


class GraphDecoder:
    """Decodes what waits, as many rows at a time as there is room for."""

    def __init__(
        self,
        rows: RowsInPlace,
        waiting: Waiting,
        steps: CapturedSteps,
        *,
        uniforms: Callable[[Wave], Float[Tensor, "steps rows"]],
    ) -> None:
        """Decode in ``rows``; their capacity is that of ``waiting.limit``."""
        self.rows, self.waiting, self.steps, self.uniforms = rows, waiting, steps, uniforms
        self._open: dict[int, WaveRow] = {}
        """Rows that were not handed out yet, by their places."""
        self._ages: list[int] = []

    def run(self) -> Iterator[list[DrawnRow]]:
        """Rows, as soon as they are seen to be done."""
        while self._open or self.waiting:
            if not self._start():  # or a first token may be the last
                if bucketed(len(self._open)) <= COMPACT_BELOW * self.rows.rows:
                    self._keep(prompts=False)
                oldest = min(self._ages[place] for place in self._open)
                for _ in range(min(LOOK_EVERY["cuda"], self.rows.parameters.max_tokens - oldest)):
                    self.steps.run(self.rows)
            if done := self._look():
                yield done

    def _start(self) -> bool:
        """Whether waiting rows have started: where many are free, they take their places."""
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
