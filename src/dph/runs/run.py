"""A whole run from Python, as ``dph run``."""

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch

from dph.errors import SettingsError
from dph.model.hub import resolve_names
from dph.recipe import Recipe, load_recipe
from dph.recipe.engines import ENGINES
from dph.runs.directory import RunDirectory
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.finished_models import EvaluatedModel, claimed, measured_model
from dph.runs.job import RunJob
from dph.runs.prepare import Stage, prepare
from dph.runs.presample.manifest import Manifest
from dph.runs.presampling_stage import pin, presample_stage
from dph.runs.progress import ProgressDisplay, Silent
from dph.runs.train.loop import Trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of an engine, this package's functions or its own."""

    presample: Callable[..., Manifest]
    train: Callable[[RunJob, ProgressDisplay], Trained]


def stages_of(recipe: Recipe) -> Stages:
    row = ENGINES[recipe.train.engine]
    return Stages(presample=resolve_name(row.presample), train=resolve_name(row.train))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Results of every stage; without evaluations if training was stopped."""

    pool: Manifest | None
    trained: Trained
    base: dict[str, Any] | None = None
    evaluation: dict[str, Any] | None = None


def run_stages(job: RunJob, progress: ProgressDisplay) -> RunResult:
    """Make the pool that the method reads, train, and evaluate the policy before and after.

    The initial policy is evaluated while its weights are in memory, unless the processes of another
    engine need that memory.

    Raises:
        DphError: as the stages do.
    """
    recipe, engine, pool, base = job.recipe, stages_of(job.recipe), None, None
    if job.needs_pool:  # other runs may share a pool outside the run directory
        pool = engine.presample(job, progress, may_split_again=recipe.presample.pool is None)
    run, before = job.directory.path, job.directory.base.path
    if job.sets and recipe.train.engine == "own":
        pin(recipe, job.directory)
        base = evaluate_stage(job, before, progress, model=job.initial)
    trained = engine.train(job, progress)
    gc.collect()  # the optimizer is in a cycle with its schedule
    torch.cuda.empty_cache()
    if trained.stopped or not job.sets:
        return RunResult(pool=pool, trained=trained)
    base = base or evaluate_stage(job, before, progress, model=job.initial)
    evaluation = evaluate_stage(job, run, progress, model=trained.checkpoint, base=before)
    return RunResult(pool=pool, trained=trained, base=base, evaluation=evaluation)


def evaluate_stages(
    job: RunJob, measured: EvaluatedModel, progress: ProgressDisplay
) -> dict[str, Any]:
    """Evaluate the recipe's model, then ``measured`` against it; returns the evaluation.json."""
    base, place = job.directory.base.path, measured.directory
    if place != base and not job.directory.base.evaluation.exists():
        # A broken model is refused before the initial policy is evaluated.
        job.policies.of(measured.model)
    document = evaluate_stage(job, base, progress, model=job.initial)
    if place != base:
        with claimed(measured):
            document = evaluate_stage(job, place, progress, model=measured.model, base=base)
    return document


_LOG = logging.getLogger(__name__)


@contextmanager
def _prepared(
    recipe: Recipe | str | Path,
    out: str | Path | None,
    overrides: Sequence[str],
    seed: int | None,
    *,
    stage: Stage,
) -> Iterator[RunJob]:
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(Path(recipe), overrides=overrides, seed=seed)
    elif overrides or seed is not None:
        raise SettingsError(
            "overrides and seed apply only to the path of a recipe; change a Recipe before "
            "passing it"
        )
    directory = RunDirectory.of(recipe, Path(out) if out is not None else None).path
    resolved = resolve_names(recipe, run=directory)
    for line in resolved.taken:
        _LOG.info("%s", line)
    with prepare(resolved.recipe, directory, stage=stage) as job:
        yield job


def presample(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    progress: ProgressDisplay | None = None,
) -> Manifest:
    """Sample the initial policy: the pool that training reads.

    A finished pool is kept; one that was stopped continues. Arguments and errors are those of
    ``run``.
    """
    with _prepared(recipe, out, overrides, seed, stage="presample") as job:
        return presample_stage(job, progress or Silent())


def evaluate(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    model: str | Path | None = None,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    progress: ProgressDisplay | None = None,
) -> dict[str, Any]:
    """Measure Pass@k, Mean@k, retention and styles on the recipe's evaluation sets.

    The recipe's model is measured first, for comparison; finished measurements are kept. Other
    arguments and errors are those of ``run``.

    Args:
        recipe: a recipe, or the path of one.
        out: the run's directory; default: ``runs/<name>`` under the working directory.
        model: a transformers directory; default: the run's result, or the recipe's model.
        overrides: ``key=value`` as of ``--set``, for the path of a recipe.
        seed: of everything random, for the path of a recipe.
        progress: shows the progress; default: nothing does.

    Returns:
        The content of ``evaluation.json``, which ``dph.load_run(out).scores()`` has as a table.
    """
    with _prepared(recipe, out, overrides, seed, stage="evaluate") as job:
        named = None if model is None else Path(model)
        measured = measured_model(job.recipe, job.directory.path, named)
        return evaluate_stages(job, measured, progress or Silent())


def run(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    progress: ProgressDisplay | None = None,
) -> RunResult:
    """Pre-sample if the method needs it, train, and evaluate before and after.

    Finished work in ``out`` is kept, so that a run that was stopped continues. Models and files on
    the Hub are fetched first, and pinned.

    Args:
        recipe: a recipe, or the path of one.
        out: the run's directory; default: ``runs/<name>`` under the working directory.
        overrides: ``key=value`` as of ``--set``, for the path of a recipe.
        seed: of everything random, for the path of a recipe.
        progress: shows the progress; default: nothing does.
    """
    with _prepared(recipe, out, overrides, seed, stage="run") as job:
        return run_stages(job, progress or Silent())
