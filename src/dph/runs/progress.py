"""Progress of stages, on any display."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import Protocol, TextIO

Advance = Callable[[int, str], None]
"""``advance(amount, note)``: ``amount`` more is done; ``note`` is a short text to show."""


class ProgressDisplay(Protocol):
    """A display of tasks with a rate and the time left."""

    def task(self, title: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """A task of ``total`` units, in whose block the yielded function reports progress."""
        ...

    def say(self, text: str) -> None:
        """Show a line of text."""
        ...


class Silent:
    """Shows nothing."""

    @contextmanager
    def task(self, title: str, total: int, unit: str) -> Iterator[Advance]:  # noqa: ARG002
        yield lambda _amount, _note: None

    def say(self, text: str) -> None:
        """Show nothing."""


MOST_CUT_OFF = 0.9


def warn_of_cut_off(
    progress: ProgressDisplay, share: float | None, *, of: str, max_tokens: int
) -> bool:
    """Warn if nearly all answers ended at the limit of tokens; returns whether it warned."""
    if share is None or share < MOST_CUT_OFF:
        return False
    progress.say(
        f"warning: {share:.0%} of the answers of {of} were cut off at max_tokens = {max_tokens}: "
        "raise it, or make the model end its answers (sampling.stop)"
    )
    return True


SLOW_GRADING = 0.5
"""Part of a step's time above which a warning names grading."""


def warn_of_slow_grading(
    progress: ProgressDisplay, grading: float, step: float, *, workers: int
) -> bool:
    """Warn if a step waits for its verifier most of the time; returns whether it warned."""
    if grading < SLOW_GRADING * step or grading < 1:
        return False
    progress.say(
        f"warning: grading takes {grading:.1f} of the {step:.1f} s of a step: make the verifier "
        f"faster, or let it grade more answers at a time (data.verifier_workers = {workers})"
    )
    return True


class ToldProgress:
    """Writes every event as a line that ``ShownProgress`` reads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._numbers = stream, count()

    @contextmanager
    def task(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        number = next(self._numbers)
        self._tell(begin=number, title=title, total=total, unit=unit)
        yield lambda amount, note: self._tell(at=number, amount=amount, note=note)
        self._tell(end=number)

    def say(self, text: str) -> None:
        self._tell(say=text)

    def _tell(self, **event: object) -> None:
        print(json.dumps(event), file=self._stream, flush=True)


class ShownProgress:
    """Progress of several child processes on one display; any thread may pass their lines."""

    def __init__(self, display: ProgressDisplay) -> None:
        self._display, self._lock = display, threading.Lock()
        self._tasks: dict[tuple[str, int], tuple[Advance, ExitStack]] = {}

    def line(self, child: str, line: str) -> None:
        """Show an event of ``child``; other output is ignored."""
        try:
            event = json.loads(line)
        except ValueError:
            return
        if isinstance(event, dict):
            with self._lock:
                self._show(child, event)

    def close(self) -> None:
        """Remove tasks that are still open, of children that were killed."""
        with self._lock:
            for _, stack in self._tasks.values():
                stack.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
            self._tasks.clear()

    def _show(self, child: str, event: dict[str, object]) -> None:
        match event:
            case {"begin": int(number), "title": str(title), "total": int(total), "unit": str(u)}:
                stack = ExitStack()
                advance = stack.enter_context(self._display.task(title, total, u))
                self._tasks[child, number] = (advance, stack)
            case {"at": int(number), "amount": int(amount), "note": str(note)}:
                if (child, number) in self._tasks:
                    self._tasks[child, number][0](amount, note)
            case {"end": int(number)}:
                if (child, number) in self._tasks:
                    self._tasks.pop((child, number))[1].close()
            case {"say": str(text)}:
                self._display.say(text)
