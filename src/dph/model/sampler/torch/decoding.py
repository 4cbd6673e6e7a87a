"""Decoding: rows start when there is room, draw token by token together, and leave when done."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.torch.choice import choose
from dph.model.sampler.torch.cohort import CacheT, Cohort, DrawnRow
from dph.model.sampler.torch.waves import Room, Waiting, Wave

COMPACT_BELOW = 0.8
"""Finished rows leave the batch once the share of unfinished ones falls below this."""
ADMIT_ABOVE = 0.25
"""Waiting rows start once this share of all rows is free: a prefill for each would cost more."""
LOOK_EVERY = {"cpu": 1, "cuda": 8}
"""Steps between two looks for finished rows: on a GPU a look waits for all that was queued."""


class DecodingForward(Protocol[CacheT]):
    """How a model runs: `SharedForward` or `RepeatedForward`."""

    joins: bool

    def start(
        self, wave: Wave, living: Sequence[CacheT]
    ) -> tuple[CacheT, Float[Tensor, "rows vocabulary"]]:
        """Run the prompts of a wave, beside the caches of waves that are still decoded."""
        ...

    def step(
        self, caches: Sequence[CacheT], tokens: Int[Tensor, "rows"]
    ) -> Float[Tensor, "rows vocabulary"]:
        """Append one token to every row of all waves."""
        ...


class Decoder(Generic[CacheT]):
    """Decodes what waits under the bounds of ``waiting.limit``."""

    def __init__(
        self,
        forward: DecodingForward[CacheT],
        waiting: Waiting,
        parameters: SamplingParameters,
        *,
        uniforms: Callable[[Wave], Float[Tensor, "steps rows"]],
    ) -> None:
        self.forward = forward
        self.waiting = waiting
        self.parameters = parameters
        self.uniforms = uniforms
        self.cohorts: list[Cohort[CacheT]] = []
        self._is_stop: Tensor | None = None

    def run(self) -> Iterator[list[DrawnRow]]:
        """Rows, as soon as they are seen to be done."""
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
            logits = [self._step()] if self.cohorts else []

    def _admit(self) -> list[Float[Tensor, "rows vocabulary"]]:
        """Start what there is room for; the logits of the new rows."""
        logits = []
        while self.waiting and (not self.cohorts or self.forward.joins):
            free = self._free()
            if self.cohorts and free.rows < ADMIT_ABOVE * self.waiting.limit.rows:
                break
            wave = self.waiting.next_wave(free)
            if wave is None:
                break
            cache, first = self.forward.start(wave, [cohort.cache for cohort in self.cohorts])
            self.cohorts.append(Cohort(wave, cache, self.uniforms(wave), self.parameters))
            logits.append(first)
        return logits

    def _free(self) -> Room:
        limit = self.waiting.limit
        return Room(
            rows=limit.rows - sum(map(len, self.cohorts)),
            tokens=limit.tokens - sum(cohort.cache.tokens for cohort in self.cohorts),
        )

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

    def _step(self) -> Float[Tensor, "rows vocabulary"]:
        tokens = torch.cat([cohort.last_tokens() for cohort in self.cohorts])
        return self.forward.step([cohort.cache for cohort in self.cohorts], tokens)
