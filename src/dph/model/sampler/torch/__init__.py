"""The sampler on torch: any causal language model of transformers, on one device."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.model.sampler.torch.sampler import TorchSampler, check_requests

__all__ = [
    "TorchSampler",
    "check_requests",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "TorchSampler": "dph.model.sampler.torch.sampler",
        "check_requests": "dph.model.sampler.torch.sampler",
    },
)
