"""Consolidate a finished model: a separate run, with a forecast before it."""

import shutil
from pathlib import Path
from typing import Any

from dph._base.files import atomic_path, make_directory
from dph.runs.consolidation_forecast import PROMPTS, comparing, forecast_stage
from dph.runs.consolidation_source import ConsolidationSource
from dph.runs.directory import EvaluationDirectory
from dph.runs.drawing import require_engine
from dph.runs.evaluation_stage import require_evaluable
from dph.runs.plan import RunPlan
from dph.runs.progress import ProgressDisplay
from dph.runs.run import RunResult, run_stages
from dph.runs.store_stage import require_prompts
from dph.runs.training_stage import steps_done


def consolidation_forecast(
    plan: RunPlan,
    progress: ProgressDisplay,
    *,
    prompts: int = PROMPTS,
    labelled: Path | None = None,
) -> dict[str, Any]:
    """``forecast_stage``, once everything that the run would be refused for was looked at.

    Raises:
        DphError: as ``forecast_stage`` does; or the directory holds another run.
    """
    require_engine(plan.recipe)
    require_evaluable(plan)
    require_prompts(plan, *plan.stores)
    steps_done(plan)
    with comparing(plan):  # it begins, so it will
        pass
    return forecast_stage(plan, progress, prompts=prompts, labelled=labelled)


def consolidate_stage(
    plan: RunPlan, source: ConsolidationSource, progress: ProgressDisplay
) -> RunResult:
    """Store, learn and evaluate; ``plan`` is of ``consolidation_recipe`` for the source's model.

    What was measured of the model already is taken over, as far as it would be drawn alike.

    Raises:
        DphError: as ``run_stages`` does.
    """
    _keep_samples(source, plan.directory.base)
    return run_stages(plan, progress)


def _keep_samples(source: ConsolidationSource, base: EvaluationDirectory) -> None:
    """Of samples that were drawn otherwise nothing is kept: the evaluation compares digests."""
    samples = source.evaluated()
    if samples is None or base.samples.exists():
        return
    make_directory(base.path)
    with atomic_path(base.samples) as temporary:
        shutil.copyfile(samples, temporary)
