"""Which directories a report is about: the runs that were named, and what they began with."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.diagnosis.run_files import EVALUATION, RECIPE, SAMPLES, RunFiles, find_run_files
from dph.errors import DataError
from dph.pages.progress_log import METRICS
from dph.settings import Recipe, load_recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """A run directory; ``files`` knows its initial policy's evaluation, where there is one."""

    path: Path
    recipe: Recipe | None
    files: RunFiles | None
    """None: the run was not evaluated, or nothing was found to compare it with."""
    why_alone: str | None
    """Why ``files`` is None."""


def find_runs(places: Sequence[Path]) -> list[FoundRun]:
    """The runs at ``places``; a directory of runs (a quickstart's, say) stands for all of them.

    Raises:
        DataError: there is no run at a place, or one is named twice.
        SettingsError: a run's recipe is not valid.
    """
    paths = runs_at(places)
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise DataError(f"the run {path} is named twice")
        seen.add(path.resolve())
    return [_found(path) for path in paths]


def runs_at(places: Sequence[Path]) -> list[Path]:
    """The directories of the runs at ``places``.

    Raises:
        DataError: there is no run at one of them.
    """
    return [path for place in places for path in _runs_at(place)]


def is_run(directory: Path) -> bool:
    """Whether something was trained or evaluated here."""
    return (directory / METRICS).is_file() or (directory / EVALUATION).is_file()


def _runs_at(place: Path) -> list[Path]:
    if not place.is_dir():
        raise DataError(f"there is no run directory {place}")
    if is_run(place):
        return [place]
    inside = [path for path in sorted(place.iterdir()) if path.is_dir() and is_run(path)]
    if not inside:
        raise DataError(
            f"{place} is no run and holds none: a run has {METRICS} or {EVALUATION} in it"
        )
    # What the others began with comes by itself.
    return [path for path in inside if path.name != "base"] or inside


def _found(path: Path) -> FoundRun:
    recipe = load_recipe(path / RECIPE) if (path / RECIPE).is_file() else None
    if not (path / SAMPLES).is_file():
        return FoundRun(path=path, recipe=recipe, files=None, why_alone=f"{path}: not evaluated")
    try:
        files = find_run_files(path, None)
    except DataError as error:  # told in the report; a run can be looked at alone
        return FoundRun(path=path, recipe=recipe, files=None, why_alone=str(error))
    return FoundRun(path=path, recipe=files.recipe, files=files, why_alone=None)
