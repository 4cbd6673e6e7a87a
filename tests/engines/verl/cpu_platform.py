"""A platform on which unmodified verl runs without an accelerator. For tests.

verl imports this module in every process (VERL_USE_EXTERNAL_MODULES) and takes the platform by
its name (VERL_PLATFORM=dph_cpu). Ray's "GPU" is a mere number here.
"""

import contextlib
import types

import torch
import torch.distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry

_ZERO = ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved")
_NOTHING = ("empty_cache", "reset_peak_memory_stats", "ipc_collect", "manual_seed_all")


class _Device(types.ModuleType):
    """``torch.cpu`` with the functions that verl's workers expect of ``torch.cuda``."""

    def __getattr__(self, name):
        if name in _ZERO:
            return lambda *_, **__: 0
        if name in _NOTHING:
            return lambda *_, **__: None
        if name == "get_rng_state":
            return lambda *_, **__: torch.get_rng_state()
        if name == "set_rng_state":
            return lambda state, *_, **__: torch.set_rng_state(state)
        if name == "get_device_name":
            return lambda *_, **__: "CPU"
        if name == "mem_get_info":
            return lambda *_, **__: (2**34, 2**34)
        return getattr(torch.cpu, name)


_DEVICE = _Device("dph_cpu_device")


@PlatformRegistry.register(platform="dph_cpu")
class CPUPlatform(PlatformBase):
    """Chosen by its name only."""

    device_name = property(lambda _: "cpu")
    vendor_name = property(lambda _: "generic")
    device_module = property(lambda _: _DEVICE)

    def is_available(self):
        return True

    def no(self, *_, **__):
        return False

    is_platform_available = is_ipc_supported = no

    def nothing(self, *_, **__):
        pass

    set_device = synchronize = set_allocator_settings = empty_cache = cudart = nothing
    profiler_start = profiler_stop = nothing

    def current_device(self):
        return torch.device("cpu")

    def device_count(self):
        return 1

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, *_, **__):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    def nvtx_range(self, *_, **__):
        return contextlib.nullcontext()

    def ray_resource_name(self):
        return "GPU"

    def ray_noset_envvars(self):
        return []


def _accept_the_same_device_twice():
    """Verl asks for "cpu:gloo,<device>:<backend>", which torch refuses when the device is a CPU."""
    theirs = torch.distributed.init_process_group

    def init_process_group(backend=None, *arguments, **keywords):
        backend = "gloo" if backend == "cpu:gloo,cpu:gloo" else backend
        return theirs(backend, *arguments, **keywords)

    torch.distributed.init_process_group = init_process_group


_accept_the_same_device_twice()
