"""How much is done, how fast it goes and how long it will take."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

HEAD_START = 0.2
"""What is reported within this time (seconds) was there already: a continued run's share."""


@dataclass(slots=True, kw_only=True)
class Meter:
    """Counts the units of a task of ``total``."""

    total: int
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    _head_start: int = 0
    _started: float = field(init=False)
    _measured_since: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self._measured_since = self.clock()

    def advance(self, amount: int) -> None:
        """Count ``amount`` units."""
        now = self.clock()
        self.done += amount
        if now - self._started < HEAD_START:
            self._head_start, self._measured_since = self.done, now

    @property
    def seconds(self) -> float:
        """Since the task began."""
        return self.clock() - self._started

    @property
    def rate(self) -> float | None:
        """Units a second, or None before anything could be measured."""
        measured, passed = self.done - self._head_start, self.clock() - self._measured_since
        return measured / passed if measured > 0 and passed > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """At this rate."""
        rate = self.rate
        return max(self.total - self.done, 0) / rate if rate else None
