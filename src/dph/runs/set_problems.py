"""The problems of a recipe's evaluation sets, read once in a process."""

from collections.abc import Mapping
from pathlib import Path

from dph.records import Problem
from dph.settings import Recipe
from dph.tasks.problems import load_problems


class SetProblems:
    """Reads the file of a set when it is first asked for, and keeps what it found.

    ``load_all`` reads every set at once: what is wrong with one is found before anything else is
    started.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._paths: Mapping[str, Path] = {n: s.path for n, s in recipe.data.sets.items()}
        self._read: dict[Path, tuple[Problem, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Problem, ...]:
        """The problems of the set ``name``.

        Raises:
            DataError: the file is missing, empty or malformed.
        """
        path = self._paths[name]
        if path not in self._read:
            self._read[path] = tuple(load_problems(path))
        return self._read[path]

    def load_all(self) -> "SetProblems":
        """Read every set that has not been read.

        Raises:
            DataError: a file is missing, empty or malformed.
        """
        for name in self._paths:
            self[name]
        return self
