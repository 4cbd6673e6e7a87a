"""A stand-in for CUDA graphs: operations and tensors are recorded, Python is not."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from counting_device.tensors import argument, tensors_in, written


class _Operation(NamedTuple):
    call: Callable[..., Any]
    args: Any
    kwargs: Any
    results: list[Tensor]


class Recording:
    """Operations of a capture, on the same tensors whenever they are replayed.

    While it lasts, operations compute, since their results' shapes are needed; what they changed is
    put back by ``end``, because a capture computes nothing.
    """

    def __init__(self) -> None:
        self.kernels: Counter[tuple[str, str]] = Counter()
        self._operations: list[_Operation] = []
        self._before: dict[int, tuple[Any, Any]] = {}

    def keep_before(self, func: Any, args: Any, kwargs: Any) -> None:
        """Keep the values of the tensors that an operation is about to change."""
        for where in written(func):
            for tensor in tensors_in(argument(where, args, kwargs)):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self._before:
                    self._before[storage.data_ptr()] = storage, storage.clone()

    def add(self, call: Callable[..., Any], args: Any, kwargs: Any, results: Any) -> None:
        """Record an operation on values, with the values that it resulted in."""
        self._operations.append(_Operation(call, args, kwargs, tensors_in(results)))

    def end(self) -> None:
        """Put back what was changed."""
        for storage, before in self._before.values():
            storage.copy_(before)
        self._before.clear()

    def replay(self) -> None:
        """Do all operations again, into the same tensors."""
        for operation in self._operations:
            again = tensors_in(operation.call(*operation.args, **operation.kwargs))
            for old, new in zip(operation.results, again, strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class DeviceGraph:
    """``torch.cuda.CUDAGraph`` of a counting device; ``kernels`` says how many a replay runs."""

    def __init__(self, device: Any, **_options: Any) -> None:
        self._device = device
        self._recording: Recording | None = None

    @property
    def kernels(self) -> int:
        return 0 if self._recording is None else self._recording.kernels.total()

    def capture_begin(self, **_options: Any) -> None:
        self._recording = self._device.begin_capture()

    def capture_end(self) -> None:
        self._device.end_capture()

    def replay(self) -> None:
        """Launch everything that was recorded, at once."""
        if self._recording is None:
            raise RuntimeError("a graph without a successfully ended capture was replayed")
        self._device.replay(self._recording)

    def reset(self) -> None:
        self._recording = None

    def pool(self) -> tuple[int, int]:
        """Name of the graph's memory, which means nothing here."""
        return (0, 1)


class GraphContext:
    """``torch.cuda.graph`` of a counting device; it waits for the device, as the real one does."""

    def __init__(self, cuda_graph: DeviceGraph, *_args: Any, **_kwargs: Any) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> None:
        torch.cuda.synchronize()
        self._graph.capture_begin()

    def __exit__(self, kind: Any, *error: Any) -> None:
        self._graph.capture_end()
        if kind is not None:
            self._graph.reset()
