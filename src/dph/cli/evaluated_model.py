"""Which model an evaluation measures, and where it is written."""

from dataclasses import dataclass
from pathlib import Path

from dph.cli.request import Request
from dph.errors import CheckpointError, ModelError, SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A model's directory and that of its evaluation."""

    model: Path
    directory: Path


def measured_model(request: Request, model: Path | None) -> Measured:
    """The model to measure and the place of its evaluation.

    The newest checkpoint's is the run directory itself, the initial policy's is ``base/`` in it,
    any other model's is ``models/<its name>/``.

    Raises:
        SettingsError: the recipe names no evaluation set.
        CheckpointError: no model is named and the run has no checkpoint.
        ModelError: the model is not there.
    """
    run = request.directory
    if not request.recipe.data.sets:
        raise SettingsError("there is nothing to evaluate on: name a set in [data.sets]")
    if model is None:
        found = (run / "checkpoints").glob("step_*/trainer.json")
        newest = max((file.parent for file in found), key=_step, default=None)
        if newest is None:
            raise CheckpointError(
                f"there is no checkpoint in {run}; run `dph train` first, or name a model (--model)"
            )
        return Measured(model=newest, directory=run)
    if not (model / "config.json").is_file():
        raise ModelError(f"{model} is not the directory of a saved transformers model")
    if model.resolve() == Path(request.recipe.model.path).resolve():
        return Measured(model=model, directory=run / "base")
    return Measured(model=model, directory=run / "models" / model.resolve().name)


def _step(checkpoint: Path) -> tuple[int, str]:
    # In the order of their numbers, without importing what reads checkpoints (torch).
    return len(checkpoint.name), checkpoint.name
