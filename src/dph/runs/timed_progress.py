"""Time that tasks take: a display that passes on its messages and keeps the seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dph.runs.progress import Advance, ProgressDisplay


class TimedProgress:
    """Shows tasks on ``display`` with ``prefix`` before their titles.

    ``seconds`` has those of every finished task, by its title; what a stage does outside of its
    tasks, such as loading a model, is no part of them.
    """

    def __init__(
        self,
        display: ProgressDisplay,
        *,
        prefix: str = "",
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._display, self._prefix, self._clock = display, prefix, clock
        self.seconds: dict[str, float] = {}

    @contextmanager
    def task(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        """A task of ``total`` units."""
        with self._display.task(f"{self._prefix}{title}", total, unit) as advance:
            started = self._clock()
            yield advance
            self.seconds[title] = self.seconds.get(title, 0.0) + self._clock() - started

    def say(self, text: str) -> None:
        """One line about what happened."""
        self._display.say(text)
