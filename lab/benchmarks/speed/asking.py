"""The class of ``agents``: in a file of its own, because a process that runs it imports it."""

from typing import Any


class Asking:
    """A shelf on which a thing lies."""

    def reset(self, **columns: Any) -> None:
        """Begin; nothing of the row is needed."""
        del columns
        self._asked = 0

    def get_reward(self) -> float:
        """Worth of a trajectory that asked at least twice."""
        return float(self._asked > 1)

    def ask(self, thing: str) -> str:
        """Ask for a thing.

        Args:
            thing: The thing.
        """
        self._asked += 1
        return f"no {thing} here"
