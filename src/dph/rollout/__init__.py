"""Drawing completions from a model, and grading them.

A sampler of your own is a class with the method of `Sampler`.
"""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.rollout.base import Sampler, SampleRequest, SamplingParameters
    from dph.rollout.graded import GradedSampler, Rollout
    from dph.rollout.torch.sampler import TorchSampler
    from dph.rollout.vllm.engine import EngineOptions
    from dph.rollout.vllm.sampler import VLLMSampler

__all__ = [
    "EngineOptions",
    "GradedSampler",
    "Rollout",
    "SampleRequest",
    "Sampler",
    "SamplingParameters",
    "TorchSampler",
    "VLLMSampler",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EngineOptions": "dph.rollout.vllm.engine",
        "GradedSampler": "dph.rollout.graded",
        "Rollout": "dph.rollout.graded",
        "SampleRequest": "dph.rollout.base",
        "Sampler": "dph.rollout.base",
        "SamplingParameters": "dph.rollout.base",
        "TorchSampler": "dph.rollout.torch.sampler",
        "VLLMSampler": "dph.rollout.vllm.sampler",
    },
)
