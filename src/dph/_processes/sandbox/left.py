"""What calls left of their arguments, until the tests may see it.

A statement of the tests that checks something sees the arguments of its calls as they were before
it, and so does what it calls: a function that changes what the expected value is computed from
would be right by its own doing. The next statement sees them as the program left them. A statement
that only takes what a call returned (``y = f(x)``) sees them at once, and ``y is x`` holds if it
does in the program.
"""

import sys
from enum import IntEnum
from types import FrameType
from typing import Any

from dph._processes.sandbox.arguments import (
    Resolve,
    containers_of,
    copied,
    resolving_same,
    take_over,
)
from dph._processes.sandbox.values import decode

TESTS, SETUP = "<test ", "<setup>"
"""How names of the files of tests begin, and the name of the setup's."""


class Statement(IntEnum):
    """What a statement of the tests does with what a call gives."""

    OTHER = 0
    TAKES = 1
    CHECKS = 2


class Left:
    """The changes that wait, each with the frame of the tests that made the call."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._waiting: list[tuple[tuple[Any, ...], Any, FrameType | None]] = []
        self._frame: FrameType | None = None
        self._kind = Statement.CHECKS

    def begin(self, frame: FrameType | None, kind: int = Statement.CHECKS) -> None:
        """A statement begins: change the arguments of what was called before it.

        Calls of a statement that is still under way, further out, wait for its end.
        """
        self._frame, self._kind = frame, Statement(kind)
        if not self._waiting:
            return
        outer = set()
        above = frame.f_back if frame is not None else None
        while above is not None:
            outer.add(id(above))
            above = above.f_back
        waiting, self._waiting = self._waiting, []
        for values, changed, caller in waiting:
            if id(caller) in outer:
                self._waiting.append((values, changed, caller))
            else:
                take_over(values, changed, self._resolve)

    def kind(self) -> Statement:
        """What the statement under way does, CHECKS where it is not known."""
        return self._kind if tests_frame() is self._frame else Statement.CHECKS

    def returned(self, values: tuple[Any, ...], changed: Any, data: Any) -> Any:
        """The value of what a call sent, which may hold its arguments; their changes are noted.

        Raises:
            BadValueError: it is none.
        """
        at_once = self.kind() is Statement.TAKES
        if not changed or at_once:
            resolve = resolving_same(values, self._resolve)
            if changed:
                take_over(values, changed, self._resolve)
            return decode(data, resolve)
        others = copied(values)
        resolve = resolving_same(others, self._resolve)
        take_over(others, changed, self._resolve)
        value = decode(data, resolve)
        self._waiting.append((values, changed, tests_frame()))
        if value is None:
            self.begin(tests_frame(), self.kind())
        return value

    def seen(self, value: Any) -> Any:
        """A container as a call before left it, though its changes may still wait."""
        for values, changed, _ in reversed(self._waiting):
            places = [n for n, each in enumerate(containers_of(values)) if each is value]
            if places:
                others = copied(values)
                found = containers_of(others)[places[0]]
                take_over(others, changed, self._resolve)
                return found
        return value


def tests_frame() -> FrameType | None:
    """The innermost frame of the tests that is under way."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith((TESTS, SETUP)):
        frame = frame.f_back
    return frame
