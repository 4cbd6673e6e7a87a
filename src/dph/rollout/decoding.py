"""Decoding one wave: prefill each prompt once, expand the cache to its rows, step, compact."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from dph.rollout.base import SamplingParameters
from dph.rollout.cache import attends_plainly, new_cache
from dph.rollout.choice import choose
from dph.rollout.waves import Wave

COMPACT_BELOW = 0.8
"""Finished rows leave the batch once the share of unfinished ones falls below this."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """Tokens and log-probs of a wave, one row a completion; what follows a stop is noise."""

    tokens: NDArray[np.int64]
    logprobs: NDArray[np.float32]


class Batch:
    """The rows still being decoded: their cache, mask and positions."""

    def __init__(self, model: PreTrainedModel, *, tokens: int) -> None:
        self.model = model
        self.plain = attends_plainly(model, tokens=tokens)
        self.cache: Cache = new_cache(model, tokens=tokens, plain=self.plain)
        self.tokens = tokens
        accepted = inspect.signature(model.forward).parameters
        self.takes_positions = "position_ids" in accepted
        self.options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self.additive = self.plain and model.config._attn_implementation == "eager"
        self.mask: Tensor
        self.positions: Int[Tensor, "rows 1"]
        self.used = 0

    def prefill(self, prompts: tuple[tuple[int, ...], ...]) -> Float[Tensor, "prompts vocabulary"]:
        """Run the prompts, padded on the left; return the logits of the first new token."""
        device = self.model.device
        width = max(map(len, prompts))
        padded = torch.tensor([(0,) * (width - len(ids)) + ids for ids in prompts], device=device)
        lengths = torch.tensor([len(ids) for ids in prompts], device=device)
        columns = torch.arange(self.tokens, device=device)
        real = columns >= width - lengths[:, None]
        self.used = width
        self.positions = lengths[:, None]
        self.mask = real
        if self.plain:
            causal = columns[:width] <= columns[:width, None]
            # A query in the padding sees itself: a row without any key would be NaN.
            itself = columns[:width] == columns[:width, None]
            square = real[:, None, :width] & causal | itself
            mask = self._masking(square)[:, None]
            self.mask = self._masking(real)[:, None, None]
        else:
            mask = real[:, :width].long()
            self.mask = real.long()
        positions = (columns[:width] - (width - lengths[:, None])).clamp(min=0)
        return self._forward(padded, mask, positions)

    def step(self, tokens: Int[Tensor, "rows"]) -> Float[Tensor, "rows vocabulary"]:
        """Append one token to every row; return the logits of the next."""
        self.used += 1
        logits = self._forward(tokens[:, None], self.mask[..., : self.used], self.positions)
        self.positions = self.positions + 1
        return logits

    def select(self, rows: Int[Tensor, "kept"]) -> None:
        """Keep or repeat rows."""
        self.cache.batch_select_indices(rows)
        self.mask = self.mask.index_select(0, rows)
        self.positions = self.positions.index_select(0, rows)

    def _masking(self, real: Bool[Tensor, "*shape"]) -> Tensor:
        if not self.additive:
            return real
        lowest = torch.finfo(torch.float32).min
        return torch.zeros(real.shape, device=real.device).masked_fill_(~real, lowest)

    def _forward(self, tokens: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        options = {"position_ids": positions} if self.takes_positions else {}
        output = self.model(
            input_ids=tokens,
            attention_mask=mask,
            past_key_values=self.cache,
            use_cache=True,
            **options,
            **self.options,
        )
        logits: Tensor = output.logits[:, -1]
        return logits


def decode(
    model: PreTrainedModel,
    wave: Wave,
    uniforms: Float[Tensor, "steps rows"],
    parameters: SamplingParameters,
    *,
    on_finished: Callable[[int], None],
) -> Decoded:
    """Decode the rows of a wave with their own uniform numbers."""
    steps, device = parameters.max_tokens, model.device
    batch = Batch(model, tokens=max(map(len, wave.prompts)) + steps)
    prompt_of_row = torch.tensor([row.prompt for row in wave.rows], device=device)
    logits = batch.prefill(wave.prompts).index_select(0, prompt_of_row)
    batch.select(prompt_of_row)

    is_stop = torch.zeros(logits.shape[-1], dtype=torch.bool, device=device)
    is_stop[list(parameters.stop_token_ids)] = True
    tokens = torch.zeros(steps, len(wave.rows), dtype=torch.long, device=device)
    logprobs = torch.zeros(steps, len(wave.rows), device=device)
    rows = torch.arange(len(wave.rows), device=device)
    live = torch.ones_like(rows, dtype=torch.bool)
    unfinished = len(rows)
    for step in range(steps):
        choice = choose(
            logits,
            uniforms[step].index_select(0, rows),
            temperature=parameters.temperature,
            top_p=parameters.top_p,
            greedy=parameters.greedy,
        )
        tokens[step].index_copy_(0, rows, choice.tokens)
        logprobs[step].index_copy_(0, rows, choice.logprobs)
        live &= ~is_stop[choice.tokens]
        still = int(live.sum()) if step < steps - 1 else 0
        if still < unfinished:
            on_finished(unfinished - still)
            unfinished = still
        if not still:
            break
        chosen = choice.tokens
        if still < COMPACT_BELOW * len(rows):
            kept = live.nonzero()[:, 0]
            batch.select(kept)
            rows, chosen, live = rows[kept], chosen[kept], live[kept]
        logits = batch.step(chosen)
    return Decoded(tokens.T.cpu().numpy(), logprobs.T.cpu().numpy())
