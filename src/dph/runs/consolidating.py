"""Consolidate a finished model: a separate run, with a forecast before it."""

import shutil
from pathlib import Path
from typing import Any

from dph._base.files import atomic_path, make_directory
from dph.runs.consolidation_forecast import PROMPTS, comparing, forecast_stage
from dph.runs.consolidation_source import ConsolidationSource
from dph.runs.evaluation_stage import require_evaluable
from dph.runs.layout import BASE, SAMPLES
from dph.runs.progress import ProgressDisplay
from dph.runs.run import RunResult, run_stages
from dph.runs.store_stage import require_prompts
from dph.runs.training_digest import training_digest
from dph.runs.training_stage import steps_done
from dph.runs.workbench import Workbench


def consolidation_forecast(
    bench: Workbench,
    directory: Path,
    progress: ProgressDisplay,
    *,
    prompts: int = PROMPTS,
    labelled: Path | None = None,
) -> dict[str, Any]:
    """``forecast_stage``, once everything that the run would be refused for was looked at.

    Raises:
        DphError: as ``forecast_stage`` does; or the directory holds another run.
    """
    bench.require_engine()
    require_evaluable(bench)
    require_prompts(bench, *bench.recipe.used_stores)
    steps_done(bench, directory, training_digest(bench, directory))
    with comparing(bench):  # it begins, so it will
        pass
    return forecast_stage(bench, directory, progress, prompts=prompts, labelled=labelled)


def consolidate_stage(
    bench: Workbench, source: ConsolidationSource, directory: Path, progress: ProgressDisplay
) -> RunResult:
    """Store, learn and evaluate; ``bench`` is of ``consolidation_recipe`` for the source's model.

    What was measured of the model already is taken over, as far as it would be drawn alike.

    Raises:
        DphError: as ``run_stages`` does.
    """
    _keep_samples(source, directory / BASE)
    return run_stages(bench, directory, progress)


def _keep_samples(source: ConsolidationSource, base: Path) -> None:
    """Of samples that were drawn otherwise nothing is kept: the evaluation compares digests."""
    samples = source.evaluated()
    if samples is None or (base / SAMPLES).exists():
        return
    make_directory(base)
    with atomic_path(base / SAMPLES) as temporary:
        shutil.copyfile(samples, temporary)
