"""A model in another mode for a moment: evaluation, or bfloat16 arithmetic."""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn
from transformers import PreTrainedModel

from dph.errors import SettingsError


def autocast(model: PreTrainedModel, dtype: str) -> AbstractContextManager[object]:
    """A context in which the model's matrix products run in ``dtype``; weights stay float32.

    Raises:
        SettingsError: ``dtype`` is neither "float32" nor "bfloat16".
    """
    if dtype == "float32":
        return contextlib.nullcontext()
    if dtype == "bfloat16":
        return torch.autocast(model.device.type, dtype=torch.bfloat16)
    raise SettingsError(f'dtype must be "float32" or "bfloat16", got {dtype!r}')


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch ``model`` to evaluation; afterwards every module is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
