"""bfloat16 arithmetic over float32 weights."""

import contextlib
from contextlib import AbstractContextManager
from typing import Literal

import torch
from transformers import PreTrainedModel

from dph.errors import SettingsError

Precision = Literal["float32", "bfloat16"]


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
