"""Attention of our own inside models of transformers, for the training forward and the sampler."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.model.attention.context import attending
    from dph.model.attention.kernels import kernel_for
    from dph.model.attention.probing import attention_window

__all__ = [
    "attending",
    "attention_window",
    "kernel_for",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "attending": "dph.model.attention.context",
        "attention_window": "dph.model.attention.probing",
        "kernel_for": "dph.model.attention.kernels",
    },
)
