"""Where the evaluation of the policy lies that a run began with; every verb asks here.

A run of its own has it in ``base/``. Runs of a quickstart, a cookbook or a study share the one
beside them. What lies in a run (``interpolated/<x>/``, ``models/<name>/``) has that of the run.
"""

from dataclasses import dataclass
from pathlib import Path

from dph._base.files import read_json
from dph.errors import DataError
from dph.recipe import ModelSettings, Recipe, load_recipe
from dph.recipe.hub_names import is_model_id
from dph.runs.layout import BASE, EVALUATION, RECIPE

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
        others.append(f"{place} is of {model}")
    wanted = "" if recipe is None else f" {recipe.model.path}"
    places = " or ".join(map(str, base_places(run)))
    return FoundBase(
        directory=None,
        why_none="; ".join(
            [f"{run}: there is no evaluation of the initial policy{wanted} in {places}", *others]
        ),
    )


def base_places(run: Path) -> list[Path]:
    """Where the evaluation of its initial policy may lie: in a run, and beside it."""
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
        raise DataError(f"{evaluation} is no evaluation: it names no model")
    return str(content["model"])
