"""What a run began with and what it ended with, as directories of models; nothing is loaded."""

from dataclasses import dataclass
from pathlib import Path

from dph.errors import CheckpointError, SettingsError
from dph.hub import model_directory, resolve_names
from dph.runs.newest_model import newest_model
from dph.settings import load_recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The two directories that a line of models runs between."""

    base: Path
    final: Path


def ends_of(run: Path) -> Ends:
    """A run's initial policy, as its recipe names it, and its newest checkpoint.

    Raises:
        SettingsError: the run's recipe cannot be read.
        CheckpointError: it has no checkpoint.
    """
    final = newest_model(run)
    if final is None:
        raise CheckpointError(
            f"there is no checkpoint in {run}; name the directory of a run that `dph train` made"
        )
    return Ends(base=_initial(run), final=final)


def _initial(run: Path) -> Path:
    return model_directory(resolve_names(load_recipe(run / "recipe.toml")).recipe.model)


def require_free(out: Path) -> None:
    """Refuse a model's directory that is there: nothing is written over.

    Raises:
        SettingsError: something lies at ``out``.
    """
    if out.exists():
        raise SettingsError(f"{out} is there already: name another directory (--out)")
