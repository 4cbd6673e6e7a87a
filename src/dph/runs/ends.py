"""Begin and end of a run, as directories of models; nothing is loaded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.errors import CheckpointError, SettingsError
from dph.model.hub import model_directory, resolve_names
from dph.recipe import EvaluationSettings, load_recipe
from dph.runs.directory import RunDirectory

# The weights of an interpolation, checked before anything is loaded.


def require_weights(weights: Sequence[float], *, extrapolate: bool = False) -> None:
    """Refuse weights that nothing is made of.

    Raises:
        SettingsError: there is none, one comes twice, is not finite, or lies outside [0, 1].
    """
    if not weights:
        raise SettingsError("name at least one weight, such as 0.5")
    for weight in weights:
        if not math.isfinite(weight):
            raise SettingsError(f"a weight must be a finite number, got {weight}")
        if not (extrapolate or 0 <= weight <= 1):
            raise SettingsError(
                f"a weight lies between 0 (the initial policy) and 1 (the newest checkpoint), got "
                f"{weight}; weights outside that range extrapolate (--extrapolate)"
            )
    names = [weight_name(weight) for weight in weights]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SettingsError(f"the weight {twice[0]} is named twice")


def weight_name(weight: float) -> str:
    """The shortest text that reads as this number: the name of its directory.

    >>> [weight_name(x) for x in (0.5, 1.0, 0, 0.30000000000000004)]
    ['0.5', '1', '0', '0.30000000000000004']
    """
    return repr(float(weight) + 0.0).removesuffix(".0")  # -0.0 + 0.0 is 0.0


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
    newest = RunDirectory(run).result(EvaluationSettings())
    if newest is None:
        raise CheckpointError(
            f"there is no checkpoint in {run}; name the directory of a run that `dph train` made"
        )
    recipe = load_recipe(RunDirectory(run).recipe_file)
    return Ends(
        base=model_directory(resolve_names(recipe).recipe.model),
        final=RunDirectory(run).result(recipe.evaluate) or newest,
    )


def require_free(out: Path) -> None:
    """Refuse a model's directory that is there: nothing is written over.

    Raises:
        SettingsError: something lies at ``out``.
    """
    if out.exists():
        raise SettingsError(f"{out} already exists: name another directory (--out)")
