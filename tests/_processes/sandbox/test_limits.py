import subprocess
import sys

import pytest

from dph._processes.sandbox.supervisor import ProcessLimits
from dph.errors import SettingsError

CHILD = """
import resource
from dph._processes.sandbox.supervisor import ProcessLimits, apply_limits
apply_limits(ProcessLimits(memory_bytes=300_000_000), seconds=1.5, threads=None)
for name in ("AS", "CPU", "FSIZE", "NOFILE", "CORE"):
    print(*resource.getrlimit(getattr(resource, f"RLIMIT_{name}")))
try:
    bytearray(400_000_000)
except MemoryError:
    print("out of memory")
"""


def test_limits_are_hard_and_the_kernels():
    out = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    # 1.5 s of wall-clock time: 2 whole seconds of processor time, and 1 more.
    assert out.stdout.split("\n")[:6] == [
        "300000000 300000000",
        "3 3",
        "16000000 16000000",
        "64 64",
        "0 0",
        "out of memory",
    ]


def test_too_little_memory_is_refused():
    with pytest.raises(SettingsError, match="at least 64000000 bytes of memory, got 63000000"):
        ProcessLimits(memory_bytes=63_000_000)
