"""The code that runs in a worker: a handler, and its announcement of the next step."""

import resource
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Keeps up to ``entries`` values, which together are of the size ``most`` at the most.

    >>> cache = BoundedCache(2)
    >>> for key in "aba": cache.put(key, key.upper())
    >>> cache.put("c", "C")
    >>> cache.get("a"), cache.get("b")
    ('A', None)
    """

    def __init__(
        self, entries: int, *, most: int = 0, size_of: Callable[[Value], int] = lambda _: 0
    ) -> None:
        self._entries, self._free, self._size_of = entries, most, size_of
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value kept under ``key``, now the most recently used, or None."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Keep ``value``; those used least recently go until the rest fits."""
        if key in self._values:
            self._free += self._size_of(self._values.pop(key))
        self._values[key] = value
        self._free -= self._size_of(value)
        while self._values and (self._free < 0 or len(self._values) > self._entries):
            self._free += self._size_of(self._values.popitem(last=False)[1])


def memory_bytes(*, resident: bool) -> int:
    """The memory that this process occupies, or has mapped; 0 where the system does not tell."""
    try:
        mapped, occupied, *_ = Path("/proc/self/statm").read_bytes().split()
    except OSError:
        return 0
    return int(occupied if resident else mapped) * resource.getpagesize()


def limit_address_space(size: int) -> None:
    """Let allocations beyond ``size`` bytes fail in this process; only on Linux."""
    if sys.platform == "linux":  # elsewhere RLIMIT_AS is missing or refuses any value
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class TellStage(Protocol):
    """Tells the parent which part of a request begins. The time limit starts again."""

    def __call__(self, name: str, seconds: float = ..., /) -> object:
        """``seconds`` is the limit of this stage where it is not that of the pool."""


Handler = Callable[[Any, TellStage], Any]
"""Called as ``handler(request, stage)``; both the request and the answer are JSON."""
