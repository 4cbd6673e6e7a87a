"""Drawing completions from a model, and grading them.

A sampler of your own is a class with the method of `Sampler`.
"""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.model.sampler.base import Sampler, SampleRequest, SamplingParameters
    from dph.model.sampler.episodes import EpisodeSampler, RoutedSampler
    from dph.model.sampler.graded import GradedSampler, Rollout
    from dph.model.sampler.torch.sampler import TorchSampler
    from dph.model.sampler.vllm import EngineOptions, VLLMSampler

__all__ = [
    "EngineOptions",
    "EpisodeSampler",
    "GradedSampler",
    "Rollout",
    "RoutedSampler",
    "SampleRequest",
    "Sampler",
    "SamplingParameters",
    "TorchSampler",
    "VLLMSampler",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EngineOptions": "dph.model.sampler.vllm",
        "EpisodeSampler": "dph.model.sampler.episodes",
        "GradedSampler": "dph.model.sampler.graded",
        "Rollout": "dph.model.sampler.graded",
        "RoutedSampler": "dph.model.sampler.episodes",
        "SampleRequest": "dph.model.sampler.base",
        "Sampler": "dph.model.sampler.base",
        "SamplingParameters": "dph.model.sampler.base",
        "TorchSampler": "dph.model.sampler.torch.sampler",
        "VLLMSampler": "dph.model.sampler.vllm",
    },
)
