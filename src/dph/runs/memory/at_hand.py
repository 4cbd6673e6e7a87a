"""The memory of the device that a recipe would run on, asked of the system and not of torch."""

import shutil
import subprocess
from dataclasses import dataclass
from math import inf
from pathlib import Path

from dph.errors import SettingsError
from dph.recipe.section import Device as Wanted

_TOTAL = "/proc/meminfo"
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU, or the machine's own memory, in bytes."""

    name: str
    cuda: bool
    memory: float


def device_at_hand(wanted: Wanted) -> Device | None:
    """The device of ``model.device``; None where nothing is known of it."""
    if wanted != "cpu" and (gpu := _gpu()) is not None:
        return gpu
    memory = None if wanted == "cuda" else _memory()
    return None if memory is None else Device(name="this machine", cuda=False, memory=memory)


def device_of(gib: float, wanted: Wanted) -> Device:
    """A device that need not be at hand: a GPU of ``gib`` GiB, or a machine for ``cpu``.

    >>> device_of(24, "auto").name
    'a GPU of 24 GiB'

    Raises:
        SettingsError: the memory is not above 0, or not a number.
    """
    if not 0 < gib < inf:
        raise SettingsError(f"the memory of a device is above 0 GiB, got {gib:g}")
    cuda = wanted != "cpu"
    name = f"{'a GPU' if cuda else 'a machine'} of {gib:g} GiB"
    return Device(name=name, cuda=cuda, memory=gib * 2**30)


def _gpu() -> Device | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, check=True, capture_output=True, text=True, timeout=20)
        name, _, mib = done.stdout.splitlines()[0].rpartition(",")
        return Device(name=name.strip(), cuda=True, memory=float(mib) * 2**20)
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return None  # a driver without a device


def _memory() -> float | None:
    """The machine's memory, or what of it this process may take."""
    try:
        lines = Path(_TOTAL).read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    total = next((float(x.split()[1]) * 1024 for x in lines if x.startswith("MemTotal")), None)
    for path in map(Path, _LIMITS):
        if total is not None and path.is_file() and (text := path.read_text().strip()).isdigit():
            total = min(total, float(text))
    return total
