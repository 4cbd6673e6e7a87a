"""What a machine is: its devices, its memory, and what of it the graders use."""

import os
import platform
import sqlite3
from typing import Any

from dph import __version__
from dph.errors import DphError


def machine() -> dict[str, Any]:
    """What ``dph doctor`` says of this machine; bytes are numbers, the rest is for people.

    Torch is loaded where it is there, and a confined process is started and ended.
    """
    devices, cuda = _devices()
    return {
        "dph": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "devices": devices,
        "cuda": cuda,
        "memory": _memory(),
        "hub": _hub(),
        "sqlite": sqlite3.sqlite_version,
        "programs": _confinement(),
    }


def machine_line(name: str, value: Any) -> str:
    """One of them, for people."""
    if isinstance(value, bool):
        return f"{name}: {'yes' if value else 'no'}"
    if isinstance(value, list):
        return f"{name}: {'; '.join(value)}"
    if isinstance(value, int):
        return f"{name}: {value / 2**30:.1f} GiB"
    return f"{name}: {value or 'unknown'}"


def _devices() -> tuple[list[str], bool]:
    """The devices that torch sees, and whether one of them is of CUDA."""
    try:
        import torch
    except ImportError:
        return [f"{os.cpu_count()} CPU cores"], False
    devices = [f"{os.cpu_count()} CPU cores, {torch.get_num_threads()} threads of torch"]
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        devices.append(f"cuda:{index} {about.name}, {about.total_memory / 2**30:.0f} GiB")
    there = torch.cuda.is_available()
    if not there:
        built = torch.version.cuda
        devices.append(f"no CUDA device (torch is built {f'for {built}' if built else 'without'})")
    return devices, there


def _memory() -> int | None:
    """Bytes of memory of the machine, or what of it this process may take."""
    from dph.runs.memory import device_at_hand

    device = device_at_hand("cpu")
    return None if device is None else round(device.memory)


def _hub() -> str:
    try:
        from huggingface_hub import constants, get_token
    except ImportError:
        return "huggingface_hub is missing"
    offline = ", offline (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else ""
    login = "logged in" if get_token() else "not logged in"
    return f"{constants.ENDPOINT}, {login}{offline}, cache {constants.HF_HUB_CACHE}"


def _confinement() -> str:
    """How programs of models would be confined here (docs/graders.md)."""
    from dph.tasks.verifiers.code.verifier import CodeVerifier

    try:
        with CodeVerifier() as verifier:
            missing = verifier.missing
    except DphError as error:
        return f"cannot be graded: {error}"
    return f"confined but for {'; '.join(missing)}" if missing else "confined in full"
