"""The rows of one wave while they are decoded: what they drew and which still go on."""

from collections.abc import Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.errors import ModelError
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.torch.waves import Wave, WaveRow


class Cache(Protocol):
    """The keys and values of a wave's rows."""

    @property
    def tokens(self) -> int:
        """What they take up, in tokens of one row."""
        ...

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep these rows, in ascending order."""
        ...


CacheT = TypeVar("CacheT", bound=Cache)


class DrawnRow(NamedTuple):
    """A completed row: its tokens up to and including the first stop token, and their log-probs."""

    row: WaveRow
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: bool


class Cohort(Generic[CacheT]):
    """A wave's rows: all have drawn ``age`` tokens; those that are done leave from time to time."""

    def __init__(
        self,
        wave: Wave,
        cache: CacheT,
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
        """Every row's number for its next token."""
        return self._uniforms[self.age].index_select(0, self._rows)

    def record(
        self, tokens: Int[Tensor, "rows"], logprobs: Float[Tensor, "rows"], stops: Tensor
    ) -> None:
        """Keep the tokens that were drawn; ``stops`` says which of them end a row."""
        self._tokens[self.age].index_copy_(0, self._rows, tokens)
        self._logprobs[self.age].index_copy_(0, self._rows, logprobs)
        self.age += 1
        self._live &= ~stops

    def last_tokens(self) -> Int[Tensor, "rows"]:
        """What every row drew last."""
        return self._tokens[self.age - 1].index_select(0, self._rows)

    def hand_out(self) -> list[DrawnRow]:
        """The rows that are done and were not handed out yet. Waits for the device.

        Raises:
            ModelError: a log-prob is not finite.
        """
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
        return list(self._drawn(done))

    def compact(self, *, below: float) -> None:
        """Let the finished rows leave once the share of unfinished ones falls under ``below``."""
        if self.unfinished >= below * len(self._rows):
            return
        kept = self._live.nonzero()[:, 0]
        self.cache.select(kept)
        self._rows = self._rows.index_select(0, kept)
        self._live = self._live.index_select(0, kept)

    def _drawn(self, done: Int[Tensor, "done"]) -> Iterator[DrawnRow]:
        tokens = self._tokens[: self.age].index_select(1, done).T.cpu().numpy()
        logprobs = self._logprobs[: self.age].index_select(1, done).T.cpu().numpy()
        stops = np.isin(tokens, self.parameters.stop_token_ids)
        finished = np.asarray(stops.any(axis=1))
        lengths = np.where(finished, stops.argmax(axis=1) + 1, self.age)
        for place, row in enumerate(done.tolist()):
            length = int(lengths[place])
            if not np.isfinite(logprobs[place, :length]).all():
                raise ModelError(
                    "the model gives log-probs that are not finite: its weights are lost"
                )
            yield DrawnRow(
                row=self.wave.rows[row],
                token_ids=tuple(tokens[place, :length].tolist()),
                logprobs=tuple(logprobs[place, :length].tolist()),
                finished=bool(finished[place]),
            )
