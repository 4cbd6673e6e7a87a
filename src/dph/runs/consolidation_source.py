"""The model that is consolidated: a run's result, a checkpoint of it, or a directory of a model."""

from dataclasses import dataclass
from pathlib import Path

from dph.errors import CheckpointError, ModelError, SettingsError
from dph.recipe import EvaluationSettings, load_recipe
from dph.runs.directory import CHECKPOINTS, CONSOLIDATION, RECIPE, RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationSource:
    """A trained model and the recipe that says how it is asked, graded and evaluated."""

    model: Path
    recipe: Path
    place: Path
    """The run, or the directory of a model outside of runs: nothing is written into it."""
    beside: Path
    """Where the consolidated run lies by default."""
    result: Path | None
    """The checkpoint that the run ends with."""

    def evaluated(self) -> Path | None:
        """The samples that were drawn of this model, where they are those of its run's result."""
        samples = RunDirectory(self.place).samples
        is_the_result = self.result is not None and self.result.resolve() == self.model
        return samples if is_the_result and samples.is_file() else None

    def require_beside(self, out: Path) -> None:
        """Refuse to write into what is consolidated.

        Raises:
            SettingsError: ``out`` is the place, or lies in it.
        """
        if out.resolve().is_relative_to(self.place):
            raise SettingsError(
                f"{out} lies in {self.place}, which must not be overwritten: name another "
                f"directory (--out)"
            )


def consolidation_source(place: Path, recipe: Path | None) -> ConsolidationSource:
    """Meaning of ``place``; ``recipe`` is that of a model outside of runs.

    Raises:
        ModelError: there is no model.
        CheckpointError: the run has no checkpoint.
        SettingsError: there is no recipe, or the model is an adapter.
    """
    place = place.resolve()
    run = place if (place / RECIPE).is_file() else _run_of(place)
    settings = load_recipe(run / RECIPE).evaluate if run else EvaluationSettings()
    result = RunDirectory(run or place).result(settings)
    model = result if run == place else place
    if model is None:
        raise CheckpointError(f"there is no checkpoint in {place}: train it first")
    _require_whole_model(model)
    chosen = recipe or (run and run / RECIPE)
    if chosen is None:
        raise SettingsError(
            f"{place} is not a run, so the prompts and the grader of its model are unknown: name "
            f"a recipe of the same task (--recipe FILE)"
        )
    home = run or place
    name = home.name if home == place else f"{home.name}-{place.name}"
    beside = home.with_name(f"{name}-consolidated")
    return ConsolidationSource(model=model, recipe=chosen, place=home, beside=beside, result=result)


def _run_of(checkpoint: Path) -> Path | None:
    """The run that a checkpoint lies in: of its consolidation, or of RL."""
    if checkpoint.parent.name != CHECKPOINTS:
        return None
    run = checkpoint.parent.parent
    above = run.parent if run.name == CONSOLIDATION else run
    return next((place for place in (above, run) if (place / RECIPE).is_file()), None)


def _require_whole_model(model: Path) -> None:
    if (model / "adapter_config.json").is_file():
        raise SettingsError(
            f"{model} is an adapter, and a consolidation continues from whole weights: `dph "
            f"export` the run, and name the exported directory, with --recipe"
        )
    if not (model / "config.json").is_file():
        raise ModelError(
            f"{model} is neither a run nor the directory of a saved transformers model"
        )
