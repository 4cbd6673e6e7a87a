"""The sampler on torch: any causal language model of transformers, on one device."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.rollout.torch.sampler import TorchSampler, check_requests

__all__ = [
    "TorchSampler",
    "check_requests",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "TorchSampler": "dph.rollout.torch.sampler",
        "check_requests": "dph.rollout.torch.sampler",
    },
)
