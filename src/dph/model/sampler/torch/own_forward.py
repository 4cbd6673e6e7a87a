"""Decoding by a model's own forward: with the cache that transformers makes, or without a cache."""

import inspect
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
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


class WholeRows:
    """The tokens of one wave's rows, each behind its prompt and padded on the right."""

    def __init__(self, ids: Int[Tensor, "rows width"], lengths: Int[Tensor, "rows"]) -> None:
        self.ids = ids
        self.lengths = lengths

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
