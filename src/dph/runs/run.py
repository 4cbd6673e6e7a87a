"""A whole run from Python: what ``dph run`` does."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from dph.model.hub import resolve_names
from dph.recipe import METHODS, ObjectiveSettings, Recipe, load_recipe
from dph.recipe.store_use import require_files
from dph.recipe.tables import ConsolidationSettings, SelfConsistencySettings
from dph.runs.engines import stages_of
from dph.runs.evaluation_stage import evaluate_stage, require_evaluable
from dph.runs.layout import CONSOLIDATION, pool_directory, run_directory
from dph.runs.pool_need import needs_pool
from dph.runs.presample.manifest import Manifest
from dph.runs.presample.stores.manifest import StoreManifest
from dph.runs.progress import ProgressDisplay, Silent
from dph.runs.store_stage import require_prompts, require_stores, store_stage
from dph.runs.train.loop import Trained
from dph.runs.training_digest import training_digest
from dph.runs.training_stage import steps_done, train_stage
from dph.runs.workbench import Workbench, open_workbench

# All stages of a recipe, one after another, each skipped where it is done.

# Consolidation: a trained policy answers prompts once more and learns from all of it together.
#
# RL moves a policy where its reward is. What it has learnt there shows in its answers to other
# prompts, and where those agree with each other they say more than any single one. A store of the
# policy's own answers, tilted towards agreement, is learnt from by the exact forward KL, which
# covers all that the policy could still answer.
#
# It is a run of its own in ``<run>/consolidation``, of a recipe that follows from the run's: its
# initial model is what RL ended with, its only term an anchor on the store, and it draws nothing.
# So it can be killed and continued like every run.

METHOD = "consolidation"
_UNMEASURED = {"every": 0, "keep_best": None, "result": "newest"}


def trained_policy(
    bench: Workbench, directory: Path, progress: ProgressDisplay, *, digest: str | None = None
) -> Trained:
    """Train, and consolidate where the recipe asks for it; what is done already is kept.

    Raises:
        DphError: as ``train_stage`` and ``store_stage`` do.
    """
    if bench.recipe.consolidation.active:
        require_files(bench.recipe.used_stores, bench.recipe.self_consistency)
        require_prompts(bench, str(bench.recipe.consolidation.store))  # not after hours of RL
    trained = stages_of(bench.recipe).train(bench, directory, progress, digest=digest)
    if trained.stopped or not bench.recipe.consolidation.active:
        return trained
    own = replace(bench, recipe=consolidation_recipe(bench.recipe, trained.checkpoint))
    place = directory / CONSOLIDATION
    store_stage(own, place, progress)
    return train_stage(own, place, progress)


def consolidation_recipe(recipe: Recipe, checkpoint: Path) -> Recipe:
    """The recipe of the run that follows ``recipe``'s, which ended with ``checkpoint``."""
    settings, named = recipe.consolidation, METHODS[METHOD]
    (anchor,) = named["objective"]["anchors"].values()
    own = {**anchor, "distributions": settings.store, "per_step": settings.rows}
    train = {
        **named["train"],
        "engine": "own",
        "steps": settings.updates,
        "problems": "all",
        "epochs": 1,
        "learning_rate": settings.rate * recipe.train.learning_rate,
        "final_rate": settings.final_rate,
        "checkpoint_every": settings.checkpoint_every,
    }
    return recipe.model_copy(
        update={
            "method": METHOD,
            "model": recipe.model.model_copy(update={"path": str(checkpoint), "revision": None}),
            "objective": ObjectiveSettings.model_validate({"anchors": {METHOD: own}}),
            "self_consistency": SelfConsistencySettings(),
            "consolidation": ConsolidationSettings(),
            "train": recipe.train.model_copy(update=train),
            "evaluate": recipe.evaluate.model_copy(update=_UNMEASURED),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Results of every stage; the evaluations are missing where training was stopped."""

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


_LOG = logging.getLogger(__name__)


def run(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    progress: ProgressDisplay | None = None,
) -> RunResult:
    """Pre-sample where the method needs it, train, and evaluate before and after.

    What is done in ``out`` is kept, so that a run that was stopped goes on. What the recipe names
    on the Hub is fetched first, and pinned.

    Args:
        recipe: a recipe, or the path of one.
        out: the run's directory; default: ``runs/<name>`` under the working directory.
        overrides: ``key=value`` as of ``--set``, for the path of a recipe.
        seed: of everything random, for the path of a recipe.
        progress: what shows how far it is; default: nothing does.

    Raises:
        SettingsError: the recipe is missing or invalid, or overrides are given with a ``Recipe``.
        DphError: as the stages do.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(Path(recipe), overrides=overrides, seed=seed)
    elif overrides or seed is not None:
        raise SettingsError(
            "overrides and seed apply only to the path of a recipe; change a Recipe before "
            "passing it"
        )
    directory = run_directory(recipe, Path(out) if out is not None else None)
    resolved = resolve_names(recipe, run=directory)
    for line in resolved.taken:
        _LOG.info("%s", line)
    with open_workbench(resolved.recipe) as bench:
        return run_stages(bench, directory, progress or Silent())
