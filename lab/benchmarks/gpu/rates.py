"""The machine: its versions, and how fast it launches, copies and multiplies."""

import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import torch

from lab.benchmarks.gpu.check import Check, seconds_of
from lab.benchmarks.speed.machine import matmul_rate

PEAKS = {
    "B200": 2250e12,
    "GH200": 989e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
    "A10": 125e12,
}
"""Published FLOP/s of dense products in bfloat16 with sums in float32."""


def peak_flops(check: Check) -> float:
    """The published rate of this card; where none is known, the measured one of large products."""
    name = torch.cuda.get_device_name() if check.cuda else ""
    published = next((rate for card, rate in PEAKS.items() if card in name), None)
    return published or 1e9 * _product(check)


def rates(check: Check) -> None:
    """One row: card, driver, and the time of a launch, a graph's node, a copy and a product."""
    row = check.row("gpu_machine", "machine")
    with check.guarded(row, "versions"):
        check.note(row, versions=row["versions"], commit=row["commit"], **_card(check))
    for name, measured in (
        ("launch_us", _launch),
        ("graph_node_us", _node),
        ("copy_tb_s", _copy),
        ("matmul_gflops", _product),
    ):
        if check.cuda or measured is not _node:
            with check.guarded(row, name):
                check.note(row, **{name: measured(check)})


def _card(check: Check) -> dict[str, Any]:
    if not check.cuda:
        return {}
    free, total = torch.cuda.mem_get_info()
    found: dict[str, Any] = {
        "capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "free_gib": free / 2**30,
        "memory_gib": total / 2**30,
    }
    if program := shutil.which("nvidia-smi"):
        query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, check=False, capture_output=True, text=True, timeout=20)
        found["driver"] = done.stdout.split("\n")[0].strip()
    return found


def _additions(check: Check) -> tuple[Callable[[], None], int]:
    count = 200 if check.tiny else 4000
    x = torch.zeros(16, device=check.device)

    def add() -> None:
        for _ in range(count):
            x.add_(1)

    return add, count


def _launch(check: Check) -> float:
    add, count = _additions(check)
    add()
    return 1e6 * seconds_of(add, cuda=check.cuda) / count


def _node(check: Check) -> float:
    add, count = _additions(check)
    add()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add()
    graph.replay()
    return 1e6 * seconds_of(graph.replay, cuda=True) / count


def _copy(check: Check) -> float:
    source = torch.ones(2**16 if check.tiny else 2**30, dtype=torch.bfloat16, device=check.device)
    target = torch.empty_like(source)
    target.copy_(source)
    seconds = min(seconds_of(lambda: target.copy_(source), cuda=check.cuda) for _ in range(5))
    return 2 * source.numel() * 2 / max(seconds, 1e-9) / 1e12  # read and written


def _product(check: Check) -> float:
    if not check.tiny:
        return matmul_rate(check.device, "bfloat16") / 1e9
    x = torch.ones(64, 64, dtype=torch.bfloat16, device=check.device)
    return 2 * 64**3 / max(seconds_of(lambda: x @ x, cuda=check.cuda), 1e-9) / 1e9
