"""What is consolidated: a run's newest model, a checkpoint of it, or a directory of a model."""

from dataclasses import dataclass
from pathlib import Path

from dph.errors import ModelError, SettingsError
from dph.models.adapter import is_adapter
from dph.runs.ends import ends_of
from dph.runs.layout import RECIPE, SAMPLES
from dph.runs.newest_model import newest_model


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationSource:
    """A trained model and the recipe that says how it is asked, graded and evaluated."""

    model: Path
    recipe: Path
    run: Path | None
    """The run that ended with the model; None where it is no run's result."""
    beside: Path
    """Where the consolidated run comes to lie by default: beside it."""


def consolidation_source(place: Path, recipe: Path | None) -> ConsolidationSource:
    """What ``place`` means; ``recipe`` is that of a model outside of a run.

    Raises:
        ModelError: there is no model.
        CheckpointError: the run has no checkpoint.
        SettingsError: there is no recipe, or the model is an adapter.
    """
    place = place.resolve()
    if (place / RECIPE).is_file():
        model, own, run = ends_of(place).final.resolve(), place / RECIPE, place
        beside = _consolidated(place, place.name)
    else:
        model, above = place, place.parent.parent
        in_a_run = place.parent.name == "checkpoints" and (above / RECIPE).is_file()
        own, run = (above / RECIPE, above) if in_a_run else (None, None)
        name = f"{above.name}-{place.name}" if in_a_run else place.name
        beside = _consolidated(above if in_a_run else place, name)
    _require_whole_model(model)
    chosen = recipe or own
    if chosen is None:
        raise SettingsError(
            f"{place} is no run of dph, so nothing says how its model is asked and graded: name a "
            "recipe of the same task (--recipe FILE)"
        )
    ended = run if run is not None and _ended_with(run, model) else None
    return ConsolidationSource(model=model, recipe=chosen, run=ended, beside=beside)


def require_beside(out: Path, place: Path) -> None:
    """Refuse to write into what is consolidated.

    Raises:
        SettingsError: ``out`` is ``place``, or lies in it.
    """
    if out.resolve().is_relative_to(place.resolve()):
        raise SettingsError(
            f"--out {out} lies in {place}, of which nothing is written over: name another directory"
        )


def _consolidated(place: Path, name: str) -> Path:
    return place.with_name(f"{name}-consolidated")


def _ended_with(run: Path, model: Path) -> bool:
    newest = newest_model(run)
    return newest is not None and newest.resolve() == model and (run / SAMPLES).is_file()


def _require_whole_model(model: Path) -> None:
    if is_adapter(model):
        raise SettingsError(
            f"{model} is an adapter, and a consolidation goes on from whole weights: `dph export` "
            "the run, and name the directory that it makes, with --recipe"
        )
    if not (model / "config.json").is_file():
        raise ModelError(f"{model} is neither a run nor the directory of a saved transformers model")
