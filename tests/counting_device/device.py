"""The counting device: where operations on its tensors are computed and counted."""

import contextlib
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from counting_device.attention import emulated
from counting_device.counts import WAITING, Counts, kernels_of, place_of_caller
from counting_device.cuda import replacements
from counting_device.graphs import Recording
from counting_device.tensors import (
    CUDA,
    DeviceTensor,
    argument,
    is_cuda,
    name_of,
    on_device,
    plain,
    returned,
    tensors_in,
)

Module = TypeVar("Module", bound=nn.Module)

_INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
_MIXED = (*_INDEXING, "copy_", "_foreach_copy_")
"""Operations that take tensors of the host together with the device's."""


class CountingDevice(TorchDispatchMode):
    """A CUDA device, for as long as the context lasts.

    What is made on it (``device="cuda"``), sent to it or moved to it (``device.move(model)``,
    ``model.to("cuda")``) has ``cuda:0`` as its device, so that code takes the same branches as on a
    GPU. Within ``device.counting(region)`` each operation counts: kernels that it launches,
    and whether the host waits for the device. An operation that mixes devices raises, as on a GPU.

    Args:
        exact: FlashAttention takes every dtype and size of head, for exact tests.
        where: also find the line of source of each operation, which takes a few microseconds.
        free_memory: what ``torch.cuda.mem_get_info`` says.
        total_memory: likewise.
    """

    def __init__(
        self,
        *,
        exact: bool = False,
        where: bool = True,
        free_memory: int = 2**36,
        total_memory: int = 2**36,
    ) -> None:
        super().__init__()
        self.free_memory, self.total_memory, self.sync_mode = free_memory, total_memory, 0
        self.counts: defaultdict[str, Counts] = defaultdict(Counts)
        self._where = where
        self._region: str | None = None
        self._recording: Recording | None = None
        self._emulated = emulated(exact=exact)
        self._pinned: dict[int, Tensor] = {}
        self._functions = _Functions(self)

    def __enter__(self) -> "CountingDevice":
        self._replaced = replacements(self)
        super().__enter__()
        self._functions.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._functions.__exit__(*error)
        super().__exit__(*error)
        self._replaced.close()
        self._pinned.clear()

    @contextlib.contextmanager
    def counting(self, region: str) -> Iterator[Counts]:
        """Count under a name; of nested regions, the innermost counts."""
        before, self._region = self._region, region
        try:
            yield self.counts[region]
        finally:
            self._region = before

    def move(self, module: Module) -> Module:
        """Put a module's parameters and buffers on the device, in place and uncounted."""
        moved: dict[Tensor, nn.Parameter] = {}  # tied ones stay tied
        for part in module.modules():
            for name, p in part._parameters.items():
                if p is not None and not isinstance(p, DeviceTensor):
                    if p not in moved:
                        moved[p] = nn.Parameter(DeviceTensor(p.data), requires_grad=p.requires_grad)
                    part._parameters[name] = moved[p]
            for name, buffer in part._buffers.items():
                if buffer is not None and not isinstance(buffer, DeviceTensor):
                    part._buffers[name] = DeviceTensor(buffer)
        return module

    def send(self, tensor: Tensor) -> DeviceTensor:
        """A copy on the device, uncounted."""
        return DeviceTensor(tensor.detach().clone())

    def numbers(self, tensor: Tensor) -> Tensor:
        """The values of a tensor on the device, uncounted."""
        return tensor.numbers.detach().clone() if isinstance(tensor, DeviceTensor) else tensor

    def launch(self, name: str, kernels: int = 1) -> None:
        """Count kernels of an operation."""
        if not kernels or (self._recording is None and self._region is None):
            return
        place = place_of_caller() if self._where else "?"
        if self._recording is not None:
            self._recording.kernels[name, place] += kernels
        else:
            self.counts[self._region].launched[name, place] += kernels

    def wait(self, name: str, *, explicit: bool = False) -> None:
        """Count a wait of the host; ``explicit`` ones do not count for the debug mode."""
        if self._recording is not None:
            raise RuntimeError(f"{name}: operation not permitted when stream is capturing")
        if self._region is not None:
            place = place_of_caller() if self._where else "?"
            self.counts[self._region].waited[name, place] += 1
        if self.sync_mode and not explicit:
            message = f"called a synchronizing CUDA operation: {name}"
            if self.sync_mode == 2:
                raise RuntimeError(message)
            warnings.warn(message, stacklevel=3)

    @property
    def capturing(self) -> bool:
        return self._recording is not None

    def begin_capture(self) -> Recording:
        if self._recording is not None:
            raise RuntimeError("a capture within a capture")
        self._recording = Recording()
        return self._recording

    def end_capture(self) -> None:
        """Record no more; what was changed meanwhile is put back."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.end()

    def replay(self, recording: Recording) -> None:
        """Do what was recorded: one launch."""
        self.launch("graph")
        if self._region is not None:
            self.counts[self._region].inside.update(recording.kernels)
        with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
            recording.replay()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, name_of(func)
        if not any(isinstance(x, DeviceTensor) for x in tensors_in((args, kwargs))):
            return self._on_host(func, name, args, kwargs)
        if name == "copy_" and isinstance(args[0], DeviceTensor) != isinstance(
            args[1], DeviceTensor
        ):
            self._copied(args, kwargs)
        else:
            self._launched(name, args, kwargs)
        if name == "_to_copy":  # to the device that it is on
            kwargs = {key: value for key, value in kwargs.items() if key != "device"}
        out = self._computed(func, self._emulated.get(name, func), name, args, kwargs)
        places = returned(func)
        if not places:
            return on_device(out)
        found = tuple(argument(place, args, kwargs) for place in places)
        return found[0] if len(found) == 1 else found

    def _on_host(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """An operation without tensors of the device: it may make or send one, or pin memory."""
        if name == "is_pinned":
            return self.is_pinned(args[0])
        if name == "_pin_memory":
            return self.pin(args[0].clone())
        if kwargs.get("pin_memory"):
            return self.pin(func(*args, **{**kwargs, "pin_memory": False}))
        if not is_cuda(kwargs.get("device")):
            return func(*args, **kwargs)
        here = {**kwargs, "device": torch.device("cpu")}
        if name != "_to_copy":
            self.launch(name, kernels_of(name, args))
            return on_device(self._computed(func, func, name, args, here))
        late = bool(here.pop("non_blocking", False))
        self._sent(args[0], late)
        if late and here.get("dtype") not in (None, args[0].dtype):
            self.launch(name)  # converted there; else by the host
        return on_device(self._computed(func, func, name, args, here))

    def _sent(self, source: Tensor, late: bool) -> None:
        if not source.numel():
            return
        self.launch("copy from host")
        if not (late and self.is_pinned(source)):
            self.wait("copy from host")

    def _copied(self, args: Any, kwargs: Any) -> None:
        """``copy_`` between host and device."""
        target, source = args[:2]
        late = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        if isinstance(target, DeviceTensor):
            self._sent(source, late)
        elif source.numel():
            self.launch("copy to host")
            if not (late and self.is_pinned(target)):
                self.wait("copy to host")

    def _launched(self, name: str, args: Any, kwargs: Any) -> None:
        """Count an operation of tensors on the device."""
        self._check_devices(name, args)
        if name in _INDEXING:
            self._indexed(name, args)
        if name == "repeat_interleave" and kwargs.get("output_size") is None:
            self.wait(name)
        self.launch(name, kernels_of(name, args))
        if name in WAITING:
            self.wait(name)

    def _indexed(self, name: str, args: Any) -> None:
        masks = [x for x in args[1] if x is not None and x.dtype in (torch.bool, torch.uint8)]
        if masks and name != "index" and args[2].numel() == 1 and type(args[2]) is Tensor:
            return  # `masked_fill_` in truth (canDispatchToMaskedFill)
        for mask in masks:
            self.launch("nonzero", kernels_of("nonzero", (mask,)))
            self.wait("nonzero")
        for index in args[1]:
            if index is not None and not isinstance(index, DeviceTensor):
                self._sent(index, late=False)

    def _check_devices(self, name: str, args: Any) -> None:
        if name not in _MIXED and any(
            x.dim() and not isinstance(x, DeviceTensor) for x in tensors_in(args)
        ):
            raise RuntimeError(
                f"{name}: expected all tensors to be on the same device, but found at least two "
                "devices, cuda:0 and cpu!"
            )

    def _computed(self, func: Any, call: Any, name: str, args: Any, kwargs: Any) -> Any:
        """The result as values, recorded where a capture is on."""
        args, kwargs = plain(args), {key: plain(value) for key, value in kwargs.items()}
        recording = self._recording
        if recording is not None:
            recording.keep_before(func, args, kwargs)
        out = call(*args, **kwargs)
        if name == "_to_copy" and out is args[0]:
            out = out.clone()
        if recording is not None and kernels_of(name, args):
            recording.add(call, args, kwargs, out)
        return out

    def pin(self, tensor: Tensor) -> Tensor:
        """Call a tensor's memory pinned, for as long as the device is there."""
        self._pinned[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether copies of it need no wait."""
        return tensor.untyped_storage().data_ptr() in self._pinned

    def to_host(self, tensor: DeviceTensor, late: bool) -> Tensor:
        """A copy in the host's memory, which is pinned if the host does not wait for it."""
        self.launch("copy to host")
        if not late:
            self.wait("copy to host")
        found = tensor.detach().numbers.clone()
        return self.pin(found) if late else found


class _Functions(TorchFunctionMode):
    """Calls in Python that name a device and do not reach the dispatcher with it."""

    def __init__(self, device: CountingDevice) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        first = args[0] if args else None
        here = isinstance(first, DeviceTensor)
        if name == "backward" and isinstance(first, Tensor):
            with self:  # for the Python code of a backward pass
                return torch.autograd.backward(first, *args[1:], **_renamed(kwargs))
        if name == "to" and isinstance(first, Tensor):
            return self._to(func, first, args[1:], kwargs)
        if name in ("cuda", "cpu") and isinstance(first, Tensor):
            late = kwargs.get("non_blocking", False)
            return self._to(torch.Tensor.to, first, (), {"device": name, "non_blocking": late})
        if name in ("tensor", "as_tensor", "asarray", "new_tensor"):
            return self._made(func, name, args, kwargs)
        if here and name == "tolist":
            return self._device.to_host(first, False).tolist()
        if here and name in ("numpy", "__array__"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy: use Tensor.cpu()")
        if here and kwargs.get("device") is not None and not is_cuda(kwargs["device"]):
            return func(*plain(args), **kwargs)  # x.new_zeros(..., device="cpu")
        return func(*args, **kwargs)

    def _to(self, func: Any, tensor: Tensor, rest: Any, kwargs: Any) -> Any:
        device, rest = kwargs.pop("device", None), list(rest)
        for i, x in enumerate(rest):
            if isinstance(x, Tensor):
                device, rest[i] = x.device, x.dtype
            elif isinstance(x, bool):
                kwargs["copy" if "non_blocking" in kwargs else "non_blocking"], rest[i] = x, None
            elif isinstance(x, str | torch.device | int):
                device, rest[i] = x, None
        rest = [x for x in rest if x is not None]
        other = kwargs.pop("other", None)
        if other is not None:
            device, rest = other.device, [other.dtype]
        if device is None:
            return func(tensor, *rest, **kwargs)
        if not isinstance(tensor, DeviceTensor):
            return func(tensor, CUDA if is_cuda(device) else device, *rest, **kwargs)
        late = kwargs.pop("non_blocking", False)
        if not is_cuda(device):
            tensor = self._device.to_host(tensor, late)
        return func(tensor, *rest, **kwargs) if rest or kwargs else tensor

    def _made(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """``torch.tensor`` and its like: made by the host, then sent."""
        device = kwargs.pop("device", None)
        there = is_cuda(device)
        if name == "new_tensor" and device is None:
            there = isinstance(args[0], DeviceTensor)
        grad = kwargs.pop("requires_grad", False)
        pinned = kwargs.pop("pin_memory", False)
        made = func(*(plain(args) if name == "new_tensor" else args), **kwargs)
        if there:
            made = made if isinstance(made, DeviceTensor) else made.to(CUDA)
        elif pinned:
            made = self._device.pin(made)
        return made.requires_grad_() if grad else made


def _renamed(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a tensor's ``backward`` as `torch.autograd.backward` calls them."""
    return {"grad_tensors" if key == "gradient" else key: x for key, x in kwargs.items()}
