"""Tables of the host on the device of a model: one copy for all of them, without a wait."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor


def to_device(arrays: Sequence[np.ndarray[Any, Any]], device: torch.device) -> list[Tensor]:
    """Each array as a tensor on ``device``, in its own dtype.

    Computed as: on CUDA, one block of pinned memory, whose copy the host does not wait for (torch
    keeps the block until the copy is done); the tensors are views of it.
    """
    if device.type != "cuda":
        return [torch.tensor(array, device=device) for array in arrays]
    ends = [*accumulate((-(-array.nbytes // 8) * 8 for array in arrays), initial=0)]
    block = np.empty(ends[-1], dtype=np.uint8)
    for array, start in zip(arrays, ends, strict=False):
        block[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    copied = torch.from_numpy(block).pin_memory().to(device, non_blocking=True)
    return [
        copied[start : start + array.nbytes].view(_dtype(array)).view(array.shape)
        if array.size
        else torch.empty(array.shape, dtype=_dtype(array), device=device)
        for array, start in zip(arrays, ends, strict=False)
    ]


def _dtype(array: np.ndarray[Any, Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, array.dtype)).dtype
