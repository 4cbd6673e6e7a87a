"""The model that an evaluation measures, and the place where the evaluation is written."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, read_json, write_json
from dph.errors import DataError, ModelError, SettingsError
from dph.model.hub import model_directory
from dph.recipe import Recipe
from dph.runs.directory import CHECKPOINTS, EvaluationDirectory, RunDirectory

MADE_FROM = "model.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedModel:
    """A model's directory and that of its evaluation."""

    model: Path
    directory: Path
    noted: bool = False
    """Whether the directory says in a file of its own which model it is of."""


def measured_model(recipe: Recipe, directory: Path, model: Path | None) -> EvaluatedModel:
    """The model to measure and the place of its evaluation.

    Without a name it is the run's result (its newest checkpoint, unless ``evaluate.result`` says
    another), or the recipe's own model where there is none. The result's place is the run directory
    itself, the initial policy's is ``base/`` in it, any other model's is ``models/<its name>/``.
    Where another model of that name was measured, the names of the directories above it are put
    before, as many as it takes.

    Raises:
        SettingsError: the recipe names no evaluation set.
        ModelError: the model is not there.
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
    place = _place_of_its_own(run.models, model.resolve())
    return EvaluatedModel(model=model, directory=place, noted=True)


@contextmanager
def claimed(measured: EvaluatedModel) -> Iterator[None]:
    """Note in the evaluation's directory which model it is of, unless nothing comes to be there."""
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


def _place_of_its_own(models: Path, model: Path) -> Path:
    # Every checkpoint lies in one, so it tells no two of them apart.
    names = [part for part in model.parts[1:] if part != CHECKPOINTS] or ["model"]
    candidates = [models / "-".join(names[-count:]) for count in range(1, len(names) + 1)]
    return next(place for place in candidates if place == candidates[-1] or _is_for(place, model))


def _is_for(place: Path, model: Path) -> bool:
    """Whether a directory is free, or holds the evaluation of this model."""
    if not place.is_dir() or not any(place.iterdir()):
        return True
    with suppress(DataError, KeyError, TypeError):
        if (place / MADE_FROM).is_file():
            return Path(_text(place / MADE_FROM, "path")) == model
        return Path(_text(EvaluationDirectory(place).evaluation, "model")).resolve() == model
    return False


def _text(file: Path, key: str) -> str:
    content: dict[str, Any] = read_json(file)
    return str(content[key])
