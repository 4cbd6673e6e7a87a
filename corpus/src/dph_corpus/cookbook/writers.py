"""Writers of rows: a function, a server, or a model of ours, by name."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from dph.model.sampler.base import Sampler, SampleRequest, SamplingParameters
from dph_corpus.settings import SynthSettings
from dph_corpus.synth.generators import Generator, OwnFunction, Server

# A model of ours as a writer of texts: prompts and seeds in, answers out.


class ModelWriter:
    """Draws one answer to each prompt, decided by its seed, whatever the batch."""

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


def open_generator(settings: SynthSettings, modules: Sequence[Path] = ()) -> Generator:
    """The generator that is named, a function in ``modules``; a model of ours is loaded."""
    max_tokens, temperature = settings.max_tokens, settings.temperature
    if settings.generator:
        return OwnFunction(settings.generator, modules)
    if not settings.server:
        return _own_model(settings.model, max_tokens, temperature)
    name = settings.key_env
    if name and name not in os.environ:
        raise SettingsError(f"set {name} to the server's key")
    return Server(
        settings.server,
        settings.model,
        max_tokens=max_tokens,
        temperature=temperature,
        key=os.environ[name] if name else "",
    )


def _own_model(name: str, max_tokens: int, temperature: float) -> Generator:
    # Loads torch: only where a model of ours writes.
    from dph.model.hub import is_on_hub, model_snapshot  # noqa: PLC0415
    from dph.model.loading import load_model, load_tokenizer  # noqa: PLC0415
    from dph.model.policies import directory_fingerprint  # noqa: PLC0415
    from dph.model.prompts import encode_prompt, stop_token_ids  # noqa: PLC0415
    from dph.model.sampler.base import SamplingParameters  # noqa: PLC0415
    from dph.model.sampler.torch.sampler import TorchSampler  # noqa: PLC0415
    from dph.recipe.tables import ModelSettings  # noqa: PLC0415

    directory = Path(name)
    if is_on_hub(ModelSettings(path=name)):
        directory = model_snapshot(name, None, fetch=True)
    tokenizer, model = load_tokenizer(directory), load_model(directory)
    return ModelWriter(
        TorchSampler(model, tokenizer),
        lambda prompt: encode_prompt(tokenizer, prompt, chat=tokenizer.chat_template is not None),
        SamplingParameters(
            max_tokens=max_tokens,
            temperature=temperature,
            stop_token_ids=stop_token_ids(tokenizer, model),
        ),
        {"model": directory_fingerprint(directory)},
    )
