"""The machine: its name, and how fast it multiplies matrices."""

import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from lab.benchmarks.speed.timing import timed


@cache
def machine_name(device: str) -> str:
    """Processor, cores and the version of torch, in one line."""
    chip = torch.cuda.get_device_name() if device == "cuda" else _processor()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{chip}, {cores} cores, torch {torch.__version__}"


def versions() -> str:
    """Python and the packages that matter, in one line."""
    packages = ("torch", "transformers", "trl")
    return ", ".join(
        [f"Python {platform.python_version()}", *(f"{p} {_version(p)}" for p in packages)]
    )


@cache
def matmul_rate(device: str, dtype: str) -> float:
    """Multiply-adds count as two: FLOP/s of the best of ten square products."""
    side = 8192 if device == "cuda" else 2048
    kind = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    left, right = (torch.randn(side, side, device=device).to(kind) for _ in range(2))
    out = torch.empty(side, side, device=device, dtype=kind)
    return 2 * side**3 / min(timed(lambda: torch.mm(left, right, out=out)) for _ in range(10))


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except ModuleNotFoundError:  # the smoke run needs no peer
        return "not installed"
