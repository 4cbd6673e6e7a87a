"""The problems of the sets that runs were evaluated on: prompts and gold answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dph.errors import DataError
from dph.records import Problem
from dph.settings import Recipe
from dph.tasks.problems import load_problems

SetProblems = Mapping[str, Mapping[str, Problem]]


def read_set_problems(recipes: Sequence[Recipe | None]) -> tuple[SetProblems, list[str]]:
    """The problems of every set that a recipe names, by set and id, and what is not there.

    Raises:
        DataError: a file is malformed, or two recipes have other problems under one set's name.
    """
    read: dict[Path, dict[str, Problem]] = {}
    sets: dict[str, Path] = {}
    notes: dict[Path, str] = {}
    for recipe in recipes:
        for name, chosen in ({} if recipe is None else recipe.data.sets).items():
            path = chosen.path.resolve()
            if not path.is_file():
                notes[path] = f"{path}, the problems of {name}, is not there: no prompts, no gold"
                continue
            if path not in read:
                read[path] = {problem.problem_id: problem for problem in load_problems(path)}
            first = sets.setdefault(name, path)
            _require_same(name, read, first, path)
    return {name: read[path] for name, path in sets.items()}, list(notes.values())


def _require_same(
    name: str, read: Mapping[Path, Mapping[str, Problem]], first: Path, other: Path
) -> None:
    if read[first] == read[other]:
        return
    differing = next(
        (i for i in [*read[first], *read[other]] if read[first].get(i) != read[other].get(i)), "?"
    )
    raise DataError(
        f"the runs have other problems in their sets {name!r}: {first} and {other} differ, for "
        f"example in {differing!r}; make a report of each"
    )
