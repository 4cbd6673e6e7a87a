"""What the changed tests of a task tell while they run (dph._processes.sandbox.checks)."""

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from dph._processes.sandbox import checks
from dph._processes.sandbox.left import Statement
from dph._processes.sandbox.remote import RemoteProgram
from dph._processes.sandbox.remote_object import Remote


class Counts:
    """How many checks were reached, and which failed.

    Attributes:
        reached: checks, so far.
        looped: whether the text that runs began a loop, or a branch, around checks.
        asked: what the program had been asked when that text began.
        hooks: the functions that changed tests call, by their names.
    """

    def __init__(self, program: RemoteProgram) -> None:
        self._program = program
        self._failed: list[BaseException] = []
        self._open = 0
        self.reached = 0
        self.looped = False
        self.asked = 0
        self.hooks: Mapping[str, Callable[..., Any]] = {
            checks.BEGINS: self._begins,
            checks.AFTER: self._after,
            checks.SEEN: program.left.seen,
            checks.REACHED: self.reach,
            checks.CHECKED: self._checked,
            checks.LOOPS: self._loops,
            checks.HELD: self._holds,
            checks.FAILED: self._fails,
            checks.HANDLED: self._handled,
        }

    def start(self, asked: int) -> int:
        """A text begins; how many checks were reached before it."""
        self.forgive()
        self.looped, self.asked = False, asked
        return self.reached

    def reach(self, is_assertion: bool = False) -> None:
        """A check is reached; an assertion has to hold or fail before the text ends."""
        self.reached += 1
        self._open += is_assertion

    def failure(self) -> str:
        """What failed, or came to no end, although the tests went on; or ''."""
        if self._failed:
            text = str(self._failed[0])
            return f"an assertion failed, and the tests went on{': ' if text else ''}{text}"
        return "an assertion came to no end, and the tests went on" if self._open > 0 else ""

    def forgive(self) -> None:
        """What failed so far should have."""
        self._failed.clear()
        self._open = 0

    def _begins(self, kind: int) -> None:
        self._program.begin(sys._getframe(1), kind)

    def _after(self, value: Any) -> Any:
        self._program.begin(sys._getframe(1), Statement.CHECKS)
        return value

    def _loops(self) -> None:
        self.looped = True

    def _holds(self) -> None:
        self._open -= 1

    def _fails(self, error: Any, of_assertion: bool = False) -> Any:
        """Note an assertion that fails: an exception, or the class of one."""
        self._open -= of_assertion
        error = error() if isinstance(error, type) else error
        self._failed.append(error)
        return error

    def _checked(self, call: Any) -> Any:
        """A call that checks, which tells when it fails."""
        self.reached += 1
        if isinstance(call, type | Remote):
            return call

        @wraps(call)
        def telling(*given: Any, **named: Any) -> Any:
            try:
                return call(*given, **named)
            except AssertionError as error:
                self._failed.append(error)
                raise

        return telling

    def _handled(self) -> None:
        """The exception that is handled now comes to something; where there is none, all did."""
        current = sys.exc_info()[1]
        kept = [each for each in self._failed if current is not None and each is not current]
        self.forgive()
        self._failed[:] = kept
