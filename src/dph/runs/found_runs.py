"""Directories that a verb is about: the runs that were named, and their initial policies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dph._base.files import read_json
from dph.errors import DataError
from dph.recipe import ModelSettings, Recipe, load_recipe
from dph.recipe.hub_names import is_model_id
from dph.runs.evaluate.samples_file import samples_digest
from dph.runs.layout import BASE, EVALUATION, METRICS, RECIPE, SAMPLES

# Where the evaluation of the policy lies that a run began with; every verb asks here.
#
# A run of its own has it in ``base/``. Runs of a quickstart, a cookbook or a study share the one
# beside them. What lies in a run (``interpolated/<x>/``, ``models/<name>/``) has that of the run.

_ABOVE = 2
"""How far above an evaluation its run lies at most: models/<name>/ and interpolated/<x>/."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBase:
    """The directory of the initial policy's evaluation; None where there is none, and why."""

    directory: Path | None
    why_none: str = ""

    def required(self) -> Path:
        """The directory.

        Raises:
            DataError: there is none.
        """
        if self.directory is None:
            raise DataError(self.why_none)
        return self.directory


def find_base(run: Path) -> FoundBase:
    """The evaluation of what ``run`` (or the evaluation there) began with.

    It has to be of the model that the run's recipe names; without a recipe any is taken.

    Raises:
        SettingsError: the run's recipe is not valid.
        DataError: an evaluation.json is damaged.
    """
    recipe, others = run_recipe(run), []
    for place in base_places(run):
        if place.resolve() == run.resolve():
            return FoundBase(directory=None, why_none=f"{run} is an initial policy's evaluation")
        if not (place / EVALUATION).is_file():
            continue
        model = _model(place / EVALUATION)
        if recipe is None or is_model(model, recipe.model):
            return FoundBase(directory=place)
        others.append(f"{place} belongs to {model}")
    wanted = "" if recipe is None else f" {recipe.model.path}"
    places = " or ".join(map(str, base_places(run)))
    return FoundBase(
        directory=None,
        why_none="; ".join(
            [f"{run}: there is no evaluation of the initial policy{wanted} in {places}", *others]
        ),
    )


def base_places(run: Path) -> list[Path]:
    """Possible places of the evaluation of its initial policy: in a run, and next to it."""
    home = (_home(run) or run).absolute()
    return [_as_given(place, run) for place in (home / BASE, home.parent / BASE)]


def run_recipe(run: Path) -> Recipe | None:
    """The recipe of a run, or of the run that an evaluation lies in.

    Raises:
        SettingsError: it is not valid.
    """
    home = _home(run)
    return None if home is None else load_recipe(home / RECIPE)


def is_model(recorded: str, model: ModelSettings) -> bool:
    """Whether a model that an evaluation names is that of a recipe.

    A relative path started at a directory that nobody knows any more: it has to be the end of the
    recipe's. A model of the Hub lies in a cache, under its name and commit.
    """
    path, wanted = Path(recorded), Path(model.path)
    if path.resolve() == wanted.resolve():
        return True
    if path.is_absolute():
        cached = (f"models--{model.path.replace('/', '--')}", "snapshots")
        return (
            is_model_id(model.path)
            and path.parts[-3:-1] == cached
            and model.revision in (None, path.name)
        )
    said = [part for part in path.parts if part != ".."]
    return bool(said) and list(wanted.parts[-len(said) :]) == said


def _home(run: Path) -> Path | None:
    """The directory with the recipe of the run that an evaluation belongs to."""
    above = [run, *run.absolute().parents[:_ABOVE]]
    return next((directory for directory in above if (directory / RECIPE).is_file()), None)


def _as_given(place: Path, run: Path) -> Path:
    """Relative to the working directory where ``run`` was."""
    here = Path.cwd()
    return place.relative_to(here) if not run.is_absolute() and here in place.parents else place


def _model(evaluation: Path) -> str:
    content = read_json(evaluation)
    if not isinstance(content, dict) or not isinstance(content.get("model"), str):
        raise DataError(f"{evaluation} is not an evaluation: it does not name a model")
    return str(content["model"])


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """A run directory; ``base`` holds the evaluation of its initial policy, where there is one."""

    path: Path
    recipe: Recipe | None
    base: Path | None
    """None: the run was not evaluated, or nothing was found to compare it with."""
    why_alone: str | None
    """Why ``base`` is None."""


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


def _found(path: Path) -> FoundRun:
    recipe = run_recipe(path)
    if not (path / SAMPLES).is_file():
        return FoundRun(path=path, recipe=recipe, base=None, why_alone=f"{path}: not evaluated")
    base = find_base(path)
    if base.directory is not None and not (base.directory / SAMPLES).is_file():
        why = f"{path}: there is no {base.directory / SAMPLES} to compare it with"
        return FoundRun(path=path, recipe=recipe, base=None, why_alone=why)
    return FoundRun(path=path, recipe=recipe, base=base.directory, why_alone=base.why_none or None)


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
    chosen = [one for one in found if one.path.resolve() in named or _evaluated(one)]
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


def _evaluated(run: FoundRun) -> bool:
    return (run.path / SAMPLES).is_file()


def _common_base(bases: Sequence[Path]) -> Path | None:
    """The one initial policy of all runs; copies of one evaluation are the same."""
    different = {samples_digest(base / SAMPLES) or str(base.resolve()): base for base in bases}
    if len(different) > 1:
        raise DataError(
            "the runs began with different initial policies, "
            f"{', '.join(map(str, different.values()))}: name the run to compare with first"
        )
    return next(iter(different.values()), None)
