"""Tensors of the counting device, and facts about operations."""

import functools
from typing import Any

import torch
from torch import Tensor

CUDA = torch.device("cuda", 0)


class DeviceTensor(Tensor):
    """A tensor on the device; ``numbers`` holds its values on the CPU.

    To torch's own C++ it is a tensor of the CPU, which is why ``autocast`` of the device follows
    the CPU's rules; to Python it is one of ``cuda:0``.
    """

    numbers: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda _: CUDA)
    is_cuda = property(lambda _: True)
    is_cpu = property(lambda _: False)

    @staticmethod
    def __new__(cls, numbers: Tensor) -> "DeviceTensor":
        made: DeviceTensor = Tensor._make_wrapper_subclass(
            cls,
            numbers.shape,
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            layout=numbers.layout,
            device="cpu",
            requires_grad=False,
        )
        made.numbers = numbers
        return made

    def __repr__(self) -> str:
        return f"DeviceTensor({self.numbers!r})"

    def get_device(self) -> int:
        """The device's number."""
        return 0

    def record_stream(self, stream: Any) -> None:
        """Nothing: memory is not used again before it is free."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} on a tensor of a counting device that was left")


def plain(x: Any) -> Any:
    """Arguments with the values of device tensors in their place."""
    if isinstance(x, DeviceTensor):
        return x.numbers
    if type(x) in (tuple, list):
        return type(x)(plain(y) for y in x)
    return x


def on_device(x: Any) -> Any:
    """Results as tensors of the device."""
    if isinstance(x, Tensor):
        return x if isinstance(x, DeviceTensor) else DeviceTensor(x)
    if type(x) in (tuple, list):
        return type(x)(on_device(y) for y in x)
    return x


def tensors_in(x: Any) -> list[Tensor]:
    """All tensors of arguments or results, in order."""
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, tuple | list):
        return [t for y in x for t in tensors_in(y)]
    return [t for y in x.values() for t in tensors_in(y)] if isinstance(x, dict) else []


def is_cuda(device: Any) -> bool:
    """Whether an argument names the device."""
    if device is None or isinstance(device, bool):
        return False
    return isinstance(device, int) or torch.device(device).type == "cuda"


@functools.cache
def name_of(func: Any) -> str:
    """``aten.add_.Tensor`` is ``add_``."""
    return func._schema.name.split("::")[1]


@functools.cache
def written(func: Any) -> tuple[int | str, ...]:
    """Arguments that an operation writes to: numbers, or names of those by keyword."""
    return tuple(
        argument.name if argument.kwarg_only else i
        for i, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


def argument(where: int | str, args: Any, kwargs: Any) -> Any:
    """One of ``written``; None where it was left out."""
    if isinstance(where, str):
        return kwargs.get(where)
    return args[where] if where < len(args) else None


@functools.cache
def returned(func: Any) -> tuple[int | str, ...]:
    """Arguments that an operation writes to and returns; empty where its results are others."""
    places = []
    for result in func._schema.returns:
        if result.alias_info is None or not result.alias_info.is_write:
            return ()
        for i, argument in enumerate(func._schema.arguments):
            alias = argument.alias_info
            if alias is not None and alias.before_set == result.alias_info.before_set:
                places.append(argument.name if argument.kwarg_only else i)
    return tuple(places)
