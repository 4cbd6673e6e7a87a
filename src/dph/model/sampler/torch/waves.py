"""Cutting requests into waves: which rows start to be decoded together, when, and in what room."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from dph.errors import SettingsError
from dph.model.sampler.base import SampleRequest, families

WIDTH_STEP = 64
"""Prompts are padded to a multiple of this in the cache: the sums of attention kernels over fewer
tokens would round differently, and a row's tokens would depend on its neighbours' prompts."""


def padded_width(tokens: int) -> int:
    """The width of prompts of at most ``tokens`` tokens.

    >>> padded_width(64), padded_width(65)
    (64, 128)
    """
    return -(-tokens // WIDTH_STEP) * WIDTH_STEP


@dataclass(frozen=True, slots=True)
class WaveRow:
    """One completion to draw: its place in the requests, and its prompt's place in the wave."""

    request: int
    sample_index: int
    prompt: int


@dataclass(frozen=True, slots=True)
class Wave:
    """Distinct prompts, each prefilled once, and the rows that are decoded from them.

    Rows of one prompt are neighbours, in the order of the prompts.
    """

    prompts: tuple[tuple[int, ...], ...]
    rows: tuple[WaveRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Limits of the cache: rows, and tokens (prompts once each, completions to the full).

    If a cache keeps prompts packed and apart from what rows draw, tokens are those of prompts.
    """

    rows: int
    tokens: int


_SHARE = 0.85
"""Of the free memory; the rest is for the intermediate results of a forward."""
_BYTES_PER_LOGIT = 18
"""Bytes of a word's logit in a step: in 16 bits, in float32, as a weight, and in sums of blocks."""


def room_in_memory(model: PreTrainedModel, *, max_tokens: int, width: int) -> Room:
    """Rows and tokens that fit into the free memory of a GPU, next to the logits of a step.

    ``width`` is the number of bytes of a number in the cache.
    """
    free, _ = torch.cuda.mem_get_info(model.device)
    free += torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
    if width == 2:  # autocast keeps its copies of the weights that are trained
        whole = (p for p in model.parameters() if p.requires_grad and p.dtype == torch.float32)
        free -= 2 * sum(parameter.numel() for parameter in whole)
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    kept = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    token = 2 * width * config.num_hidden_layers * kept * size
    logits = _BYTES_PER_LOGIT * config.vocab_size
    rows = max(1, int(_SHARE * free / (max_tokens * token + logits)))
    return Room(rows=rows, tokens=max(0, int((_SHARE * free - rows * logits) / token)))


class Capacity(NamedTuple):
    """Sizes of the tensors: rows, and tokens of the prompts that they have."""

    rows: int
    prompt_tokens: int
    longest: int
    """Tokens of the longest prompt."""
    samples: int
    """Rows of one prompt at most."""


def capacity_of(requests: Sequence[SampleRequest], limit: Room, *, max_tokens: int) -> Capacity:
    """All rows at once if they fit into ``limit``, else as many as fit with their prompts."""
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


class Waiting:
    """The prompts that still wait for room, longest first.

    Requests with the same prompt share its prefill. The longest prompts come first, so that the
    prompts of a wave have similar lengths and memory peaks at the start; prompts that are at least
    half alike (questions on one schema) come with the longest of them. The waves are a function of
    the arguments only.
    """

    def __init__(
        self,
        requests: Sequence[SampleRequest],
        *,
        limit: Room,
        max_tokens: int,
        shared: bool = True,
        packed: bool = False,
    ) -> None:
        """Queue the rows of all requests.

        ``shared`` is false where each row holds its prompt, ``packed`` true where prompts are not
        padded to one width, so that a wave takes prompts of any lengths.
        """
        wanted: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for position, request in enumerate(requests):
            samples = range(request.first_index, request.first_index + request.samples)
            wanted.setdefault(request.prompt_ids, []).extend((position, i) for i in samples)
        longest = max((len(prompt) for prompt, rows in wanted.items() if rows), default=0)
        if not packed and padded_width(longest) + max_tokens > limit.tokens:
            raise SettingsError(
                f"a prompt of {longest} tokens (padded to {padded_width(longest)}) and max_tokens "
                f"= {max_tokens} do not fit into cache_tokens = {limit.tokens}"
            )
        self.limit = limit
        self.max_tokens = max_tokens
        self.shared = shared
        self.packed = packed
        drawn = {prompt: deque(rows) for prompt, rows in wanted.items() if rows}
        order = _by_family(drawn) if shared else sorted(drawn, key=lambda prompt: -len(prompt))
        self._queue = deque((prompt, drawn[prompt]) for prompt in order)

    def __bool__(self) -> bool:
        return bool(self._queue)

    def next_wave(self, free: Room) -> Wave | None:
        """The next rows that fit into ``free`` together; None if not even one does.

        A prompt whose rows need more than half of all the room starts as many as there is room
        for; others wait until all their rows fit. A prompt that is longer than the wave's first,
        or less than half as long, starts a new wave.
        """
        prompts: list[tuple[int, ...]] = []
        rows: list[WaveRow] = []
        while self._queue:
            prompt, keys = self._queue[0]
            width = len(prompts[0]) if prompts else len(prompt)
            if not (self.packed or width <= 2 * len(prompt) <= 2 * width):
                break
            asked = [*prompts, prompt]
            count = min(len(keys), self._most_rows(free, asked) - len(rows))
            cut = 2 * len(keys) > self._most_rows(self.limit, asked[:1])
            if count < 1 or (count < len(keys) and not cut):
                break
            rows.extend(WaveRow(*keys.popleft(), len(prompts)) for _ in range(count))
            prompts.append(prompt)
            if keys:
                break
            self._queue.popleft()
        return Wave(prompts=tuple(prompts), rows=tuple(rows)) if rows else None

    def _most_rows(self, room: Room, prompts: Sequence[tuple[int, ...]]) -> int:
        """Number of rows of ``prompts``, the longest of which comes first, that fit."""
        if self.packed:
            return room.rows if sum(map(len, prompts)) <= room.tokens else 0
        width = padded_width(len(prompts[0]))
        if self.shared:
            fitting = (room.tokens - len(prompts) * width) // self.max_tokens
        else:
            fitting = room.tokens // (width + self.max_tokens)
        return min(room.rows, fitting)


def _by_family(prompts: Mapping[tuple[int, ...], object]) -> list[tuple[int, ...]]:
    """Families of prompts that are half alike, and in each the prompts, longest first."""
    given = {prompt: place for place, prompt in enumerate(prompts)}
    found = families(prompts)

    def longest_first(prompt: tuple[int, ...]) -> tuple[int, int]:
        return -len(prompt), given[prompt]

    for family in found:
        family.sort(key=longest_first)
    found.sort(key=lambda family: longest_first(family[0]))
    return [prompt for family in found for prompt in family]
