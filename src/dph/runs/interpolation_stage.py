"""The interpolation stage: models between base and run, evaluated as the run is."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph.errors import CheckpointError, SettingsError
from dph.runs.ends import Ends, ends_of
from dph.runs.evaluation_stage import evaluate_stage, require_evaluable
from dph.runs.interpolation import interpolate
from dph.runs.interpolation_weights import require_weights, weight_name
from dph.runs.progress import ProgressDisplay
from dph.runs.train.checkpoint_places import latest_checkpoint
from dph.runs.train.checkpoints import read_progress
from dph.runs.training_digest import training_digest
from dph.runs.workbench import Workbench

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpolation:
    """One model between base and run, with the content of its ``evaluation.json``."""

    weight: float
    directory: Path
    evaluation: dict[str, Any]

    @property
    def name(self) -> str:
        """What it is called beside others."""
        return weight_name(self.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpolations:
    """The evaluations of the initial policy, of all models between, and of the run."""

    base: dict[str, Any]
    between: tuple[Interpolation, ...]
    final: dict[str, Any]
    retention_k: int


def interpolation_stage(
    bench: Workbench,
    run: Path,
    weights: Sequence[float],
    progress: ProgressDisplay,
    *,
    extrapolate: bool = False,
) -> Interpolations:
    """Make and evaluate the models at ``weights``; what is done already is kept.

    All of them are made before the first is evaluated, so that what cannot be made is known at
    once.

    Raises:
        DphError: as ``interpolated`` and ``evaluate_stage`` do.
    """
    require_weights(weights, extrapolate=extrapolate)
    if not bench.recipe.data.sets:
        raise SettingsError("there is nothing to evaluate on: name a set in [data.sets]")
    ends = ends_of(run)
    require_evaluable(bench)
    _warn_of_another_start(bench, run, ends)
    places = [interpolate(run, weight, ends, extrapolate=extrapolate) for weight in weights]
    base = evaluate_stage(bench, run / "base", progress, model=ends.base)
    final = evaluate_stage(bench, run, progress, model=ends.final, base=run / "base")
    between = tuple(
        Interpolation(
            weight=weight,
            directory=place,
            evaluation=evaluate_stage(bench, place, progress, model=place, base=run / "base"),
        )
        for weight, place in zip(weights, places, strict=True)
    )
    return Interpolations(
        base=base,
        between=between,
        final=final,
        retention_k=bench.recipe.evaluate.retention_k,
    )


def _warn_of_another_start(bench: Workbench, run: Path, ends: Ends) -> None:
    """Tell where the run is not finished, or was not trained from what its recipe names now."""
    # What RL ended with: a consolidation has a recipe of its own, which follows from the run's.
    trained = latest_checkpoint(run / "checkpoints") or ends.final
    try:
        done = read_progress(trained, digest=training_digest(bench, run)).step
    except CheckpointError:
        logger.warning(
            "the settings, or what they name, are not those that %s was trained with: if %s is not "
            "the model that it began from, nothing between the two means anything",
            trained,
            ends.base,
        )
        return
    if done < bench.recipe.train.steps:
        logger.warning(
            "%s is not finished, after %d of %d steps; these are models between its initial policy "
            "and %s",
            run,
            done,
            bench.recipe.train.steps,
            ends.final,
        )
