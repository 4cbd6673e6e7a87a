"""The peer of sampling: transformers' generate as TRL calls it."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerFast

from dph.model.loading import autocast
from lab.benchmarks.speed.world import PAD, World


class Generate:
    """Draws one completion for each prompt: repeated, padded on the left, in one call."""

    def __init__(
        self, world: World, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        self.world, self.model, self.tokenizer = world, model, tokenizer
        self.stops = torch.tensor(world.stop_tokens, device=world.device)
        self.config = GenerationConfig(
            max_new_tokens=world.shape.completion,
            do_sample=True,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            pad_token_id=PAD,
            eos_token_id=list(world.stop_tokens),
            disable_compile=True,
        )

    def __call__(self, prompts: Sequence[str]) -> list[list[int]]:
        """Token ids up to and including the first stop token."""
        inputs = self.tokenizer(list(prompts), return_tensors="pt", padding=True)
        inputs = inputs.to(self.world.device)
        with torch.no_grad(), autocast(self.model, self.world.dtype):
            ids = self.model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                generation_config=self.config,
            )
        completions = ids[:, inputs["input_ids"].shape[1] :]
        lengths = self._lengths(completions).tolist()
        return [row[:n] for row, n in zip(completions.tolist(), lengths, strict=True)]

    def _lengths(self, completions: Int[Tensor, "rows tokens"]) -> Int[Tensor, "rows"]:
        ended = torch.isin(completions, self.stops)
        return torch.where(ended.any(1), ended.int().argmax(1) + 1, completions.shape[1])
