"""Forward passes through the cache that transformers makes for a model, whatever its attention."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from dph.model.sampler.torch.waves import Wave


class RepeatedCache:
    """The cache of one wave, with the prompts repeated for each row and padded on the left."""

    def __init__(self, cache: DynamicCache, mask: Tensor, positions: Tensor) -> None:
        self.cache = cache
        self.mask = mask
        self.positions = positions

    @property
    def tokens(self) -> int:
        """The tokens there is memory for."""
        return int(self.mask.numel())

    def select(self, kept: Int[Tensor, "kept"]) -> None:
        """Keep or repeat rows."""
        self.cache.batch_select_indices(kept)
        self.mask = self.mask.index_select(0, kept)
        self.positions = self.positions.index_select(0, kept)


class RepeatedForward:
    """Prefills each prompt once, repeats its cache for its rows, and decodes wave by wave.

    Right for sliding windows, ALiBi and whatever else transformers caches token by token.
    """

    joins = False
    """Whether waves are decoded in one forward, so that one may start while others go on."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        accepted = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in accepted
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Nothing has to be set up."""
        yield

    def start(
        self, wave: Wave, living: Sequence[RepeatedCache] = ()
    ) -> tuple[RepeatedCache, Float[Tensor, "rows vocabulary"]]:
        """Run the prompts; return the wave's cache and the logits of each row's first token."""
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
        """Append one token to every row of all waves; return the logits of the next."""
        parts = torch.split(tokens, [len(cache.mask) for cache in caches])
        return torch.cat([self._append(*pair) for pair in zip(caches, parts, strict=True)])

    def _append(self, cache: RepeatedCache, tokens: Tensor) -> Tensor:
        cache.mask = torch.cat([cache.mask, cache.mask.new_ones(len(cache.mask), 1)], dim=1)
        logits = self._run(cache, tokens[:, None], cache.positions)
        cache.positions = cache.positions + 1
        return logits

    def _run(self, cache: RepeatedCache, tokens: Tensor, positions: Tensor) -> Tensor:
        options = {"position_ids": positions} if self._takes_positions else {}
        output = self.model(
            input_ids=tokens,
            attention_mask=cache.mask,
            past_key_values=cache.cache,
            use_cache=True,
            **options,
            **self._options,
        )
        logits: Tensor = output.logits[:, -1]
        return logits
