"""Replacements of ``torch.cuda``'s functions while a counting device is there."""

import contextlib
import functools
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._dynamo  # before anything is replaced
import torch.nn.utils.clip_grad as clip
import torch.optim.optimizer as optimizer
import torch.utils._foreach_utils as foreach
from torch import nn

from counting_device.graphs import DeviceGraph, GraphContext
from counting_device.tensors import CUDA, DeviceTensor

_MODES = {"default": 0, "warn": 1, "error": 2}

_FIXED: dict[str, Any] = {
    "is_available": True,
    "is_initialized": True,
    "_lazy_init": None,
    "is_bf16_supported": True,
    "device_count": 1,
    "current_device": 0,
    "set_device": None,
    "get_device_name": "a counting device",
    "get_device_capability": (9, 0),
    "empty_cache": None,
    "max_memory_allocated": 0,
    "memory_allocated": 0,
    "max_memory_reserved": 0,
    "memory_reserved": 0,
    "reset_peak_memory_stats": None,
    "manual_seed": None,
    "manual_seed_all": None,
    "set_rng_state": None,
    "graph_pool_handle": (0, 1),
}


class DeviceStream:
    """A stream, which is always done: operations here run when they are launched."""

    def __init__(self, *_args: Any, counting: Any, **_kwargs: Any) -> None:
        self._counting, self.device, self.cuda_stream = counting, CUDA, 0

    def synchronize(self) -> None:
        self._counting.wait("synchronize of a stream")

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        return torch.cuda.Event() if event is None else event

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    wait_event = wait_stream


class DeviceEvent:
    """An event, which has always happened."""

    def __init__(self, *_args: Any, counting: Any, **_kwargs: Any) -> None:
        self._counting = counting

    def record(self, stream: Any = None) -> None:
        """Nothing to do."""

    wait = record

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        self._counting.wait("synchronize of an event", explicit=True)

    def elapsed_time(self, _end: Any) -> float:
        return 0.0


class _Generator(torch.Generator):
    """A generator of the device is one of the CPU."""

    def __new__(cls, _device: Any = "cpu") -> "_Generator":
        return super().__new__(cls)


def _constant(value: Any) -> Any:
    return lambda *_, **__: value


def replacements(counting: Any) -> contextlib.ExitStack:
    """Put them in the place of torch's; closing puts torch's back."""
    stack = contextlib.ExitStack()
    stream = functools.partial(DeviceStream, counting=counting)
    current = stream()
    cuda = {name: _constant(value) for name, value in _FIXED.items()} | {
        "synchronize": lambda *_: counting.wait("synchronize", explicit=True),
        "mem_get_info": lambda *_: (counting.free_memory, counting.total_memory),
        "get_device_properties": lambda *_: _properties(counting),
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
        "is_current_stream_capturing": lambda: counting.capturing,
        "set_sync_debug_mode": lambda mode: setattr(counting, "sync_mode", _MODES.get(mode, mode)),
        "get_sync_debug_mode": lambda: counting.sync_mode,
        "CUDAGraph": functools.partial(DeviceGraph, counting),
        "graph": GraphContext,
        "Event": functools.partial(DeviceEvent, counting=counting),
        "Stream": stream,
        "stream": lambda _: contextlib.nullcontext(),
        "current_stream": _constant(current),
        "default_stream": _constant(current),
        "device": contextlib.nullcontext,
    }
    for name, value in cuda.items():
        stack.enter_context(mock.patch.object(torch.cuda, name, value))
    stack.enter_context(mock.patch.object(torch, "Generator", _Generator))
    # A build for CUDA would ask the driver for its stream before each step of an optimizer.
    nothing = mock.patch.object(torch.accelerator, "current_accelerator", _constant(None))
    stack.enter_context(nothing)
    _replace_autocast(stack)
    _replace_lists(stack)
    _replace_moves(stack, counting)
    # Otherwise the function mode would be left while `grad` runs backward code of ours.
    stack.enter_context(mock.patch.object(torch.autograd, "has_torch_function", _constant(False)))
    return stack


def _properties(counting: Any) -> SimpleNamespace:
    return SimpleNamespace(
        name="a counting device",
        total_memory=counting.total_memory,
        multi_processor_count=132,
        major=9,
        minor=0,
    )


def _replace_autocast(stack: contextlib.ExitStack) -> None:
    """Make autocast of the device the CPU's: its tensors are the CPU's to torch's own code."""
    kind = torch.amp.autocast_mode.autocast
    begin = kind.__init__

    def begin_for_cpu(this: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(this, _of_cpu(device_type), *args, **kwargs)

    stack.enter_context(mock.patch.object(kind, "__init__", begin_for_cpu))
    for name in ("is_autocast_enabled", "get_autocast_dtype"):
        inner = getattr(torch, name)
        asked = functools.partial(lambda ask, kind="cuda": ask(_of_cpu(kind)), inner)
        stack.enter_context(mock.patch.object(torch, name, asked))


def _of_cpu(kind: str) -> str:
    return "cpu" if kind == "cuda" else kind


def _replace_lists(stack: contextlib.ExitStack) -> None:
    """Optimizers and clipping take the kernels for lists of tensors, as they do on a device."""
    known = [torch.Tensor, nn.Parameter, DeviceTensor]
    stack.enter_context(mock.patch.object(optimizer, "_foreach_supported_types", known))
    for place in (foreach, clip):
        stack.enter_context(mock.patch.object(place, "_has_foreach_support", _constant(True)))
    grouped = foreach._group_tensors_by_device_and_dtype

    def by_device(lists: Any, with_indices: bool = False) -> Any:
        found = grouped(lists, with_indices)
        if any(isinstance(x, DeviceTensor) for x in lists[0]):
            return {(CUDA, dtype): value for (_, dtype), value in found.items()}
        return found

    name = "_group_tensors_by_device_and_dtype"
    for place in (foreach, clip, optimizer):
        stack.enter_context(mock.patch.object(place, name, by_device))


def _replace_moves(stack: contextlib.ExitStack, counting: Any) -> None:
    """``module.to("cuda")`` moves parameters in place, so that tied ones stay tied."""
    to = nn.Module.to

    def to_device(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        if device is None or device.type != "cuda":
            return to(module, *args, **kwargs)
        return counting.move(module if dtype is None else to(module, dtype))

    stack.enter_context(mock.patch.object(nn.Module, "to", to_device))
    stack.enter_context(
        mock.patch.object(nn.Module, "cuda", lambda module, *_: counting.move(module))
    )
