"""A model of ours as a writer of texts: prompts and seeds in, answers out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dph.model.sampler.base import Sampler, SampleRequest, SamplingParameters


class ModelWriter:
    """Draws one answer to each prompt, decided by its seed, whatever the batch.

    Args:
        sampler: what draws.
        encode: a prompt's tokens.
        parameters: how to draw.
        identity: what tells this model from others, as JSON.
    """

    def __init__(
        self,
        sampler: Sampler,
        encode: Callable[[str], tuple[int, ...]],
        parameters: SamplingParameters,
        identity: Mapping[str, Any],
    ) -> None:
        self._sampler, self._encode, self._parameters = sampler, encode, parameters
        self.identity: Mapping[str, Any] = {
            **identity,
            "max_tokens": parameters.max_tokens,
            "temperature": parameters.temperature,
            "top_p": parameters.top_p,
        }

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """The answers, in order; one that was cut off is as far as it went."""
        requests = [
            SampleRequest(problem_id=str(seed), prompt_ids=self._encode(prompt), samples=1)
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        drawn = self._sampler.sample(requests, self._parameters, seed=0)
        return [group[0].text for group in drawn]
