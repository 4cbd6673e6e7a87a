"""The sampler on vLLM."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.rollout.vllm.engine import EngineOptions, require_vllm
    from dph.rollout.vllm.sampler import VLLMSampler

__all__ = [
    "EngineOptions",
    "VLLMSampler",
    "require_vllm",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EngineOptions": "dph.rollout.vllm.engine",
        "VLLMSampler": "dph.rollout.vllm.sampler",
        "require_vllm": "dph.rollout.vllm.engine",
    },
)
