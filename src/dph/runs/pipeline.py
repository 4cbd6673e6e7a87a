"""All stages of a recipe, one after another, each skipped where it is done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dph.runs.consolidation_stage import trained_policy
from dph.runs.engines import stages_of
from dph.runs.evaluation_stage import evaluate_stage, require_evaluable
from dph.runs.layout import pool_directory
from dph.runs.pool_need import needs_pool
from dph.runs.presample.manifest import Manifest
from dph.runs.presample.stores.manifest import StoreManifest
from dph.runs.progress import ProgressDisplay
from dph.runs.store_stage import require_prompts, store_stage
from dph.runs.stores import require_stores
from dph.runs.train.loop import Trained
from dph.runs.training_digest import training_digest
from dph.runs.training_stage import steps_done
from dph.runs.workbench import Workbench


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What every stage left; the evaluations are missing where training was stopped."""

    pool: Manifest | None
    trained: Trained
    stores: Mapping[str, StoreManifest] = field(default_factory=dict)
    base: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None


def run_stages(bench: Workbench, directory: Path, progress: ProgressDisplay) -> RunResult:
    """Make the pool and the stores that the method reads, train, and evaluate before and after.

    Raises:
        DphError: as the stages do.
    """
    recipe = bench.recipe
    stages_of(recipe).check(bench)
    require_evaluable(bench)
    require_stores(recipe, pool_directory(recipe, directory))
    digest = training_digest(bench, directory)
    steps_done(bench, directory, digest)  # refuses other settings before anything is sampled
    require_prompts(bench, *recipe.used_stores)  # not after the pool was drawn
    pool = None
    if needs_pool(recipe):  # other runs may share a pool that has a place of its own
        own = recipe.presample.pool is None
        presample = stages_of(recipe).presample
        pool = presample(bench, directory, progress, may_split_again=own)
        if any(anchor.store for anchor in recipe.objective.anchors.values()):
            digest = training_digest(bench, directory)  # it may be the pool that was just made
    stores = store_stage(bench, directory, progress)
    if stores:
        digest = training_digest(bench, directory)
    trained = trained_policy(bench, directory, progress, digest=digest)
    if trained.stopped or not recipe.data.sets:
        return RunResult(pool=pool, trained=trained, stores=stores)
    base = evaluate_stage(bench, directory / "base", progress, model=bench.initial)
    evaluation = evaluate_stage(
        bench, directory, progress, model=trained.checkpoint, base=directory / "base"
    )
    return RunResult(pool=pool, trained=trained, stores=stores, base=base, evaluation=evaluation)
