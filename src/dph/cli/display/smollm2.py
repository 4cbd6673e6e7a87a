"""SmolLM2 as a part of ``dph doctor``: where it lies, whether it is whole, whether it speaks."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dph.errors import DphError
from dph.lab.smollm2 import HOW, smollm2_place
from dph.lab.smollm2.place import WEIGHTS_SHA256, check_digests

NAME = "smollm2"
_LABEL = "a real language model"
_PROMPT, _ANSWER = "The capital of France is", " Paris"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealModel:
    """What was found of the model; with ``missing`` it is not ready."""

    directory: Path | None
    facts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    def line(self) -> str:
        """What is there, or what is missing and how it comes."""
        told = self.missing or list(self.facts.values())
        state = "ready" if self.ready else "not ready"
        return f"{_LABEL} ({NAME}): {state}: {'; '.join(told)}"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        place = None if self.directory is None else str(self.directory)
        return {"ready": self.ready, "missing": self.missing, "model": place, **self.facts}


def real_model(*, whole: bool) -> RealModel:
    """Look for the model; ``whole`` also reads all of it and lets it speak, which takes seconds."""
    directory = smollm2_place()
    if directory is None:
        return RealModel(directory=None, missing=[f"SmolLM2-135M-Instruct is missing ({HOW})"])
    facts = {"model": str(directory)}
    if not whole:
        return RealModel(directory=directory, facts=facts)
    try:
        check_digests(directory)
        said = _said(directory)
    except DphError as error:
        return RealModel(directory=directory, missing=[str(error)])
    if said != _ANSWER:
        wrong = f"{_PROMPT!r} is continued with {said!r}, not {_ANSWER!r}"
        return RealModel(directory=directory, missing=[wrong])
    facts |= {"weights": f"sha256:{WEIGHTS_SHA256}", "says": f"{_PROMPT}{said}"}
    return RealModel(directory=directory, facts=facts)


def _said(directory: Path) -> str:
    """The likeliest token after the prompt."""
    from dph.model.loading import load_model, load_tokenizer
    from dph.model.sampler.base import SampleRequest, SamplingParameters
    from dph.model.sampler.torch.sampler import TorchSampler

    tokenizer = load_tokenizer(directory)
    sampler = TorchSampler(load_model(directory, device="cpu"), tokenizer)
    request = SampleRequest(problem_id=NAME, prompt_ids=tuple(tokenizer.encode(_PROMPT)), samples=1)
    parameters = SamplingParameters(max_tokens=1, stop_token_ids=(), greedy=True)
    [[answer]] = sampler.sample([request], parameters, seed=0)
    return answer.text
