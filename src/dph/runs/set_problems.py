"""The problems of a recipe's evaluation sets, read once in a process."""

from pathlib import Path

from dph.model.hub import problems_file
from dph.recipe import Recipe
from dph.records import Problem
from dph.tasks.problems import load_problems


class SetProblems:
    """Reads the file of a set when it is first asked for, and keeps what it found.

    ``load_all`` reads every set at once: what is wrong with one is found before anything else is
    started.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._data = recipe.data
        self._read: dict[tuple[Path, tuple[tuple[str, str], ...]], tuple[Problem, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Problem, ...]:
        """The problems of the set ``name``.

        Raises:
            DataError: the file is missing, empty or malformed.
        """
        path, columns = self._data.sets[name].path, self._data.columns_of(name)
        file = (path, tuple(columns.items()))
        if file not in self._read:
            self._read[file] = tuple(load_problems(problems_file(path), columns=columns))
        return self._read[file]

    def load_all(self) -> "SetProblems":
        """Read every set that has not been read.

        Raises:
            DataError: a file is missing, empty or malformed.
        """
        for name in self._data.sets:
            self[name]
        return self
