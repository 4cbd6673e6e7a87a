"""The runs that are meant where a command names places, and what they are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.errors import DataError
from dph.results.read.run_results import RunResults
from dph.runs.directory import BASE, EVALUATION, METRICS, SAMPLES


def find_runs(places: Sequence[Path], *, any_recipe: bool = False) -> list[RunResults]:
    """The runs at ``places``; a directory of runs (a quickstart's, say) stands for all of them.

    ``any_recipe``: a run whose recipe is not valid, such as one of another version of this package,
    is among them without its recipe (``RunResults.unread_recipe``).

    Raises:
        DataError: there is no run at a place, one is named twice, or an evaluation is damaged.
        SettingsError: a run's recipe is not valid, and ``any_recipe`` is False.
    """
    paths = runs_at(places)
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise DataError(f"the run {path} is named twice")
        seen.add(path.resolve())
    found = [RunResults(path) for path in paths]
    found = [run.readable() for run in found] if any_recipe else found
    for run in found:
        run.why_alone  # noqa: B018 - so that what is wrong with any is said before all are read
    return found


def runs_at(places: Sequence[Path]) -> list[Path]:
    """The directories of the runs at ``places``.

    Raises:
        DataError: there is no run at one of them.
    """
    return [path for place in places for path in _runs_at(place)]


def the_run(place: Path) -> Path:
    """The run that is meant: ``place``, or the only one in a directory of runs.

    Raises:
        DataError: there is none, or there are several to choose from.
    """
    runs = _runs_at(place)
    if len(runs) > 1:
        raise DataError(f"{place} holds {len(runs)} runs, name one: {', '.join(map(str, runs))}")
    return runs[0]


def is_run(directory: Path) -> bool:
    """Whether something was trained or evaluated here."""
    return (directory / METRICS).is_file() or (directory / EVALUATION).is_file()


def holds_runs(place: Path) -> bool:
    """Whether a directory that was named stands for the runs in it."""
    return place.is_dir() and not is_run(place) and not (place / SAMPLES).is_file()


def _runs_at(place: Path) -> list[Path]:
    if not place.is_dir():
        raise DataError(f"there is no run directory {place}")
    if not holds_runs(place):
        return [place]
    inside = [path for path in sorted(place.iterdir()) if path.is_dir() and is_run(path)]
    if not inside:
        raise DataError(
            f"{place} is not a run and contains none: a run has {METRICS} or {EVALUATION} in it"
        )
    # What the others began with comes by itself.
    return [path for path in inside if path.name != BASE] or inside


# Which runs ``dph compare`` sets side by side, and which of them comes first.


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """Evaluated directories, the baseline first; ``notes`` say what is not among them, and why."""

    runs: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def compared_runs(places: Sequence[Path]) -> ComparedRuns:
    """The runs at ``places`` and what they are compared with.

    The first of several runs is the baseline. One run alone, and the runs of a directory that is
    named first, are compared with the initial policy that they began with, where it was evaluated.

    Raises:
        DataError: there is no run, one is named twice or was named and not evaluated, or the runs
            began with several initial policies.
        SettingsError: a run's recipe is not valid.
    """
    found = find_runs(places)
    named = {place.resolve() for place in places}
    chosen = [one for one in found if one.path.resolve() in named or one.is_evaluated]
    notes = [one.why_alone for one in found if one not in chosen and one.why_alone]
    if not chosen:
        raise DataError(f"no run was evaluated: {'; '.join(notes)}")
    runs = [one.path for one in chosen]
    if len(places) > 1 and not holds_runs(places[0]):
        return ComparedRuns(runs=tuple(runs), notes=tuple(notes))
    notes += [one.why_alone for one in chosen if one.why_alone]
    base = _common_base([one.base for one in chosen if one.base is not None])
    others = [run for run in runs if base is None or run.resolve() != base.resolve()]
    return ComparedRuns(runs=tuple(others if base is None else [base, *others]), notes=tuple(notes))


def _common_base(bases: Sequence[RunResults]) -> Path | None:
    """The one initial policy of all runs; copies of one evaluation are the same."""
    different = {base.identity: base.path for base in bases}
    if len(different) > 1:
        raise DataError(
            "the runs began with different initial policies, "
            f"{', '.join(map(str, different.values()))}: name the run to compare with first"
        )
    return next(iter(different.values()), None)
