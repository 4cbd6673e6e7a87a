"""How long stages tell what they do, without knowing who listens."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int, str], None]
"""``advance(amount, note)``: so much more is done; ``note`` is a few words on the newest."""


class ProgressDisplay(Protocol):
    """Shows tasks with a rate and the time left."""

    def task(self, title: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        """A task of ``total`` units; what is inside the block calls the function it yields."""
        ...

    def say(self, text: str) -> None:
        """One line about what happened."""
        ...


class Silent:
    """Shows nothing."""

    @contextmanager
    def task(self, title: str, total: int, unit: str) -> Iterator[Advance]:  # noqa: ARG002
        """Do nothing with what is reported."""
        yield lambda _amount, _note: None

    def say(self, text: str) -> None:
        """Do nothing."""
