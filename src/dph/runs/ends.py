"""What a run began with and what it ended with, as directories of models; nothing is loaded."""

from dataclasses import dataclass
from pathlib import Path

from dph.errors import CheckpointError, SettingsError
from dph.model.hub import model_directory, resolve_names
from dph.recipe import EvaluationSettings, load_recipe
from dph.runs.result_model import result_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The two directories that a line of models runs between."""

    base: Path
    final: Path


def ends_of(run: Path) -> Ends:
    """A run's initial policy, as its recipe names it, and its result.

    Raises:
        SettingsError: the run's recipe cannot be read.
        CheckpointError: it has no checkpoint.
    """
    newest = result_model(run, EvaluationSettings())
    if newest is None:
        raise CheckpointError(
            f"there is no checkpoint in {run}; name the directory of a run that `dph train` made"
        )
    recipe = load_recipe(run / "recipe.toml")
    return Ends(
        base=model_directory(resolve_names(recipe).recipe.model),
        final=result_model(run, recipe.evaluate) or newest,
    )


def require_free(out: Path) -> None:
    """Refuse a model's directory that is there: nothing is written over.

    Raises:
        SettingsError: something lies at ``out``.
    """
    if out.exists():
        raise SettingsError(f"{out} is there already: name another directory (--out)")
