"""Peak memory of one side, measured in a process of its own."""

import json
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from lab.benchmarks.speed.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """MiB: the most that the process ever held, and what it held before the work began."""

    peak: float
    before: float

    @property
    def added(self) -> float:
        """What the work added."""
        return self.peak - self.before


def measure_peak(side: str, case: str, run: Run) -> Peak:
    """The peak of ``side`` in a new process (see lab.benchmarks.speed.peak).

    Raises:
        RuntimeError: the process failed; the message is its own.
    """
    command = [
        sys.executable,
        "-m",
        "lab.benchmarks.speed.peak",
        side,
        case,
        json.dumps(asdict(run)),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{side}/{case}: {done.stderr}")
    return Peak(**json.loads(done.stdout.splitlines()[-1]))


def held_mib(device: str) -> float:
    """Memory held now."""
    if device == "cuda":
        return torch.cuda.memory_allocated() / 2**20
    return _status("VmRSS")


def peak_mib(device: str) -> float:
    """The most that was ever held."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return _status("VmHWM")


def _status(name: str) -> float:
    status = Path("/proc/self/status")
    if not status.exists():  # only the peak is known elsewhere
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    line = next(x for x in status.read_text().splitlines() if x.startswith(name))
    return float(line.split()[1]) / 2**10
