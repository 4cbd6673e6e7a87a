"""The sampler on vLLM."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.model.sampler.vllm.engine import EngineOptions, require_vllm
    from dph.model.sampler.vllm.sampler import VLLMSampler

__all__ = [
    "EngineOptions",
    "VLLMSampler",
    "require_vllm",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EngineOptions": "dph.model.sampler.vllm.engine",
        "VLLMSampler": "dph.model.sampler.vllm.sampler",
        "require_vllm": "dph.model.sampler.vllm.engine",
    },
)
