"""A counting device that leaves large calculations out, so that a real shape takes seconds."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from counting_device.counts import FREE
from counting_device.device import CountingDevice
from counting_device.tensors import argument, plain, tensors_in, written

_NUMPY = {torch.float64: np.float64, torch.float32: np.float32}


class IdleDevice(CountingDevice):
    """Counts as its parent does; large results of floating-point operations are made up.

    Operations with results of whole numbers are calculated whatever their size, so lengths, masks
    and tokens are right. Few numbers made of many are ones, many are zeros: pages that the system
    never hands out, unless somebody writes to them.

    Args:
        least: numbers of the largest tensor of an operation that is left out.
        attends: calculate attention whatever its size. May change at any time.
    """

    def __init__(self, *, least: int = 2**16, attends: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self._least, self.attends = least, attends

    def _computed(self, func: Any, call: Any, name: str, args: Any, kwargs: Any) -> Any:
        tensors = tensors_in((plain(args), {key: plain(x) for key, x in kwargs.items()}))
        attention = name in self._emulated and "attention" in name
        few = max((x.numel() for x in tensors), default=0) < self._least
        if name in FREE or (self.attends if attention else few):
            return super()._computed(func, call, name, args, kwargs)
        changed = [t for where in written(func) for t in tensors_in(argument(where, args, kwargs))]
        if changed and all(t.is_floating_point() for t in changed):
            return None  # the caller takes the argument that it is
        try:
            out = func(*_on_meta(plain(args)), **{k: _on_meta(plain(x)) for k, x in kwargs.items()})
        except (NotImplementedError, RuntimeError):
            out = None
        shapes = tensors_in(out) if isinstance(out, Tensor | tuple | list) else []
        if changed or not shapes or not (attention or all(t.is_floating_point() for t in shapes)):
            return super()._computed(func, call, name, args, kwargs)
        return self._idle(out)

    def _idle(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            # Ones where little is left of many numbers: a sum whose logarithm is taken.
            here = x.numel() < self._least
            return torch.ones(x.shape, dtype=x.dtype) if here else _zeros(x)
        return type(x)(self._idle(y) for y in x) if type(x) in (tuple, list) else x


def _on_meta(x: Any) -> Any:
    if isinstance(x, Tensor):
        return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="meta")
    if type(x) in (tuple, list):
        return type(x)(_on_meta(y) for y in x)
    return torch.device("meta") if isinstance(x, torch.device) else x


def _zeros(like: Tensor) -> Tensor:
    """Zeros of a tensor's shape, strides and dtype, in memory that nobody has touched."""
    span = 1 + sum((n - 1) * s for n, s in zip(like.size(), like.stride(), strict=True))
    kind = _NUMPY.get(like.dtype)
    if kind is None or not like.numel():
        half = torch.from_numpy(np.zeros(max(span, 0), np.int16))
        flat = half.view(like.dtype) if like.element_size() == 2 else half.to(like.dtype)
    else:
        flat = torch.from_numpy(np.zeros(span, kind))
    return flat.as_strided(like.size(), like.stride())
