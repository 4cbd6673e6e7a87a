"""Where work is done: something that takes jobs and says when one has ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Job:
    """``payload`` is JSON: all that whoever does the job needs, with absolute paths."""

    id: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that came to its end; ``error`` is '' where it did what it should.

    ``bad_input`` says that the error is one of what the job was given.
    """

    id: str
    error: str
    bad_input: bool = False


class Jobs(Protocol):
    """Runs several jobs at a time."""

    @property
    def capacity(self) -> int:
        """How many."""
        ...

    def start(self, job: Job) -> None:
        """Begin a job; there is room for it."""
        ...

    def wait(self) -> Ended:
        """Wait until one of the jobs has ended."""
        ...

    def close(self) -> None:
        """End what is still running: at once, and without anything half-written."""
        ...
