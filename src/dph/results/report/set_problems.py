"""The problems of the sets that runs were evaluated on: prompts and gold answers."""

from collections.abc import Mapping
from pathlib import Path

from dph.errors import DataError
from dph.recipe import Recipe
from dph.records import Problem
from dph.runs.evaluate.problems_file import PROBLEMS_FILE, read_kept_problems
from dph.tasks.problems import load_problems

SetProblems = dict[str, dict[str, Problem]]


def read_set_problems(runs: Mapping[Path, Recipe | None]) -> tuple[SetProblems, list[str]]:
    """The problems of every set, by set and id, and what is not there.

    They are those that lie beside a run's answers; of a run without them those that its recipe
    names.

    Raises:
        DataError: a file is malformed, or two runs have other problems under one set's name.
    """
    sets: SetProblems = {}
    origins: dict[str, Path] = {}
    notes: dict[Path, str] = {}
    read: dict[Path, dict[str, Problem]] = {}
    for run, recipe in runs.items():
        for name, path, problems in _of_run(run, recipe, read, notes):
            first = sets.setdefault(name, problems)
            _require_same(name, first, problems, origins.setdefault(name, path), path)
    return sets, list(notes.values())


def _of_run(
    run: Path, recipe: Recipe | None, read: dict[Path, dict[str, Problem]], notes: dict[Path, str]
) -> list[tuple[str, Path, dict[str, Problem]]]:
    """Sets with the file that their problems come from."""
    kept: SetProblems = {}
    for (name, problem_id), problem in read_kept_problems(run / PROBLEMS_FILE).items():
        kept.setdefault(name, {})[problem_id] = problem
    found = [(name, run / PROBLEMS_FILE, problems) for name, problems in kept.items()]
    for name, chosen in ({} if recipe is None else recipe.data.sets).items():
        path = chosen.path.resolve()
        if name in kept:
            continue
        if not path.is_file():
            notes[path] = f"{path}, the problems of {name}, is not there: no prompts, no gold"
            continue
        if path not in read:
            read[path] = {problem.problem_id: problem for problem in load_problems(path)}
        found.append((name, path, read[path]))
    return found


def _require_same(
    name: str,
    first: Mapping[str, Problem],
    other: Mapping[str, Problem],
    first_path: Path,
    other_path: Path,
) -> None:
    if first == other:
        return
    differing = next((i for i in [*first, *other] if first.get(i) != other.get(i)), "?")
    raise DataError(
        f"the runs have other problems in their sets {name!r}: {first_path} and {other_path} "
        f"differ, for example in {differing!r}; make a report of each"
    )
