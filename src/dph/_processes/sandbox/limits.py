"""What a confined process may use."""

import math
import resource
from dataclasses import dataclass

from dph.errors import SettingsError

_SMALLEST_MEMORY = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one process; the kernel holds it to them.

    Attributes:
        memory_bytes: address space, what the interpreter takes included.
        file_bytes: size of a file that it writes, and of all of them together.
        files: files and directories that it may make.
        descriptors: open files.
        threads: of all processes of its user where that can be told apart from others.

    Raises:
        SettingsError: ``memory_bytes`` is too small for an interpreter.
    """

    memory_bytes: int = 1_000_000_000
    file_bytes: int = 16_000_000
    files: int = 256
    descriptors: int = 64
    threads: int = 64

    def __post_init__(self) -> None:
        if self.memory_bytes < _SMALLEST_MEMORY:
            raise SettingsError(
                f"a program needs at least {_SMALLEST_MEMORY} bytes of memory, "
                f"got {self.memory_bytes}"
            )


def apply_limits(limits: Limits, *, seconds: float, threads: int | None) -> None:
    """Hold the caller to ``limits`` and, a little later than the clock does, ``seconds`` of CPU.

    ``threads`` is the limit for all processes of the caller's user, None for none.
    """
    processor = math.ceil(seconds) + 1
    kinds = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_CPU: processor,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.descriptors,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if threads is not None:
        kinds[resource.RLIMIT_NPROC] = threads
    for kind, value in kinds.items():
        _, hard = resource.getrlimit(kind)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))
