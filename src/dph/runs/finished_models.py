"""Directories of the models of a finished run, and of their evaluations. Loads no torch."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dph._base.files import make_directory, read_json, write_json
from dph.errors import CheckpointError, DataError, ModelError, SettingsError
from dph.model.hub import model_directory, resolve_names
from dph.recipe import EvaluationSettings, Recipe, load_recipe
from dph.runs.directory import (
    CHECKPOINTS,
    EvaluationDirectory,
    RunDirectory,
    checkpoint_of,
    checkpoints_in_order,
    step_of,
)


def require_weights(weights: Sequence[float], *, extrapolate: bool = False) -> None:
    if not weights:
        raise SettingsError("name at least one weight, such as 0.5")
    for weight in weights:
        if not math.isfinite(weight):
            raise SettingsError(f"a weight must be a finite number, got {weight}")
        if not (extrapolate or 0 <= weight <= 1):
            raise SettingsError(
                f"a weight is between 0 (the initial policy) and 1 (the newest checkpoint), got "
                f"{weight}; weights outside that range extrapolate (--extrapolate)"
            )
    names = [weight_name(weight) for weight in weights]
    if twice := [name for name in names if names.count(name) > 1]:
        raise SettingsError(f"the weight {twice[0]} is named twice")


def weight_name(weight: float) -> str:
    """The name of a weight's directory: the shortest text that reads as this number.

    >>> [weight_name(x) for x in (0.5, 1.0, 0, 0.30000000000000004)]
    ['0.5', '1', '0', '0.30000000000000004']
    """
    return repr(float(weight) + 0.0).removesuffix(".0")  # -0.0 + 0.0 is 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """A run's initial policy and its result.

    A line of models runs from ``start``, the initial policy or an early checkpoint, to ``final``.
    """

    base: Path
    final: Path
    start: Path


def ends_of(run: Path, *, step: int | None = None) -> Ends:
    """A run's initial policy, as its recipe names it, and its result.

    ``step``: the line starts at the checkpoint after so many steps, not at the initial policy.
    """
    newest = RunDirectory(run).result(EvaluationSettings())
    if newest is None:
        raise CheckpointError(
            f"there is no checkpoint in {run}; name the directory of a run that `dph train` made"
        )
    recipe = load_recipe(RunDirectory(run).recipe_file)
    base = model_directory(resolve_names(recipe).recipe.model)
    start = base if step is None else checkpoint_of(newest.parent, step)
    if not start.is_dir():
        if step is None:
            raise CheckpointError(f"the initial policy of {run} is missing: {base}")
        steps = ", ".join(str(step_of(path)) for path in checkpoints_in_order(newest.parent))
        raise CheckpointError(f"{run} has no checkpoint of step {step}; it has those of {steps}")
    return Ends(base=base, final=RunDirectory(run).result(recipe.evaluate) or newest, start=start)


def require_free(out: Path) -> None:
    if out.exists():
        raise SettingsError(f"{out} already exists: name another directory (--out)")


MADE_FROM = "model.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedModel:
    """A model's directory and that of its evaluation; ``noted``: a file in it names the model."""

    model: Path
    directory: Path
    noted: bool = False


def measured_model(recipe: Recipe, directory: Path, model: Path | None) -> EvaluatedModel:
    """The model to measure and the directory of its evaluation.

    ``model`` None: the run's result (``evaluate.result``), or the recipe's model if there is none.
    The result's evaluation is in the run directory itself, the initial policy's in ``base/``, that
    of any other model in ``models/<its name>/``. If another model of that name was measured, the
    name begins with as many directories above the model as it takes.
    """
    run = RunDirectory(directory)
    if not recipe.data.sets:
        raise SettingsError("there is nothing to evaluate on: name a set in [data.sets]")
    if model is None:
        result = run.result(recipe.evaluate)
        if result is not None:
            return EvaluatedModel(model=result, directory=run.path)
        return EvaluatedModel(model=model_directory(recipe.model), directory=run.base.path)
    if not any((model / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise ModelError(f"{model} is not the directory of a saved transformers model")
    if model.resolve() == model_directory(recipe.model).resolve():
        return EvaluatedModel(model=model, directory=run.base.path)
    whole = model.resolve()
    # Every checkpoint is in a directory of this name, which tells no two of them apart.
    names = [part for part in whole.parts[1:] if part != CHECKPOINTS] or ["model"]
    places = [run.models / "-".join(names[-count:]) for count in range(1, len(names) + 1)]
    own = next(place for place in places if place == places[-1] or _is_for(place, whole))
    return EvaluatedModel(model=model, directory=own, noted=True)


@contextmanager
def claimed(measured: EvaluatedModel) -> Iterator[None]:
    """Write the note that names the model; remove it if nothing else is written next to it."""
    if not measured.noted:
        yield
        return
    note = measured.directory / MADE_FROM
    make_directory(note.parent)
    write_json(note, {"schema": 1, "path": str(measured.model.resolve())})
    try:
        yield
    finally:
        if [path.name for path in note.parent.iterdir()] == [MADE_FROM]:
            note.unlink()
            with suppress(OSError):  # other models were measured: their directory stays
                note.parent.rmdir()
                note.parent.parent.rmdir()
                note.parent.parent.parent.rmdir()


def _is_for(place: Path, model: Path) -> bool:
    """True if a directory is free, or holds the evaluation of this model."""
    if not place.is_dir() or not any(place.iterdir()):
        return True
    with suppress(DataError, KeyError, TypeError):
        if (place / MADE_FROM).is_file():
            return Path(read_json(place / MADE_FROM)["path"]) == model
        return Path(read_json(EvaluationDirectory(place).evaluation)["model"]).resolve() == model
    return False
