"""Prepare a run: read and check the inputs of a recipe; nothing is written."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Literal

import torch
from transformers import PreTrainedConfig

from dph._base.files import only_writer
from dph.errors import CheckpointError, DataError, PoolError, SettingsError
from dph.model.hub import model_directory, problems_file
from dph.model.loading import load_config, load_tokenizer, on_this_device, require_usable
from dph.model.sampler.vllm import require_vllm
from dph.recipe import Recipe
from dph.recipe.engines import ENGINES
from dph.recipe.keys import refuse_stores
from dph.records import Problem
from dph.runs.answers import comparer_of, kind_of, run_verifier, verifier_maker
from dph.runs.check_model import missing_extras
from dph.runs.directory import RunDirectory, is_made
from dph.runs.evaluate.progress_file import measured_steps, read_progress_file
from dph.runs.job import Policies, PreparedSet, Resumed, RunJob, Style
from dph.runs.objective import make_objective
from dph.runs.presample.manifest import Manifest, ValueSource, read_manifest
from dph.runs.presample.pool import require_free
from dph.runs.prompts import RunPrompts, file_prompts, recipe_shots, require_no_shown_test
from dph.runs.train.checkpoints import read_progress, read_verifiers, record_verifier
from dph.runs.train.collect import SelfConsistency
from dph.runs.training_digest import TrainingKey, what_changed
from dph.tasks.agreement import KeyComparer
from dph.tasks.problems import load_problems
from dph.tasks.styles import make_style
from dph.tasks.verifiers.base import Verifier

Stage = Literal["run", "presample", "train", "evaluate"]
"""The part of a run that a job is for; ``run`` is all of them."""
TRAIN = ("run", "train")
"""The stages that change weights."""
Sets = Mapping[str, tuple[Problem, ...]]


@contextmanager
def prepare(
    recipe: Recipe, directory: Path, *, stage: Stage = "run", accept_verifier: bool = False
) -> Iterator[RunJob]:
    """The job of ``recipe`` in ``directory``; its verifiers are stopped afterwards.

    Files on the Hub are in the cache already (``dph.model.hub.resolve_names``). Cheap inputs come
    first, so that a bad one is named before anything heavy is loaded. No weights are read.
    """
    refuse_stores(directory)
    recipe = on_this_device(recipe)
    initial = model_directory(recipe.model)
    config = load_config(initial)
    require_usable(config, recipe.model.path)
    data = recipe.data
    sets, problems = _problems(recipe, stage)
    if data.databases is not None and not data.databases.is_dir():
        raise DataError(f"data.databases is not a directory: {data.databases}")
    style = make_style(data.styles, data.modules)
    prompts = RunPrompts.of(data, load_tokenizer(initial))
    recipe = recipe.model_copy(update={"data": data.decided(chat=prompts.chat)})
    if recipe.model.threads:
        torch.set_num_threads(recipe.model.threads)
    shots, problems = recipe_shots(recipe, problems)
    require_no_shown_test(shots, sets.items())
    prompts = replace(prompts, shots=shots)
    with ExitStack() as stack:
        verifier = run_verifier(recipe)
        stack.callback(verifier.close)
        run = RunDirectory(directory)
        key = TrainingKey(
            recipe=recipe,
            initial=initial,
            tokenizer=prompts.tokenizer,
            asked=prompts.fingerprint(problems),
            verifier=verifier,
        )
        prepared, learns, resumed = {}, None, Resumed()
        if stage != "presample":
            prepared = _sets(recipe, sets, (verifier, style), stack)
        if stage in TRAIN:
            learns = _self_consistency(recipe, problems, sets, verifier, stack)
            resumed = _resumed(run, key, accept=accept_verifier)
        job = RunJob(
            recipe=recipe,
            directory=run,
            initial=initial,
            policies=Policies(initial, recipe.model),
            prompts=prompts,
            problems=problems,
            sets=prepared,
            self_consistency=learns,
            verifier=verifier,
            style=style,
            key=key,
            resumed=resumed,
            accept_verifier=accept_verifier,
        )
        _require(job, config, stage)
        yield job


def _problems(recipe: Recipe, stage: Stage) -> tuple[Sets, tuple[Problem, ...]]:
    """The problems of the sets that the stage needs, and those of training; each file once."""
    data, read = recipe.data, dict[tuple[Path, tuple[tuple[str, str], ...]], tuple[Problem, ...]]()

    def problems_of(path: Path, columns: Mapping[str, str]) -> tuple[Problem, ...]:
        file = (path, tuple(columns.items()))
        if file not in read:
            read[file] = tuple(load_problems(problems_file(path), columns=columns))
        return read[file]

    learns = bool(recipe.evaluate.every or recipe.self_consistency.active)
    needed = stage in ("run", "evaluate") or data.shots or (learns and stage == "train")
    named = data.sets.items() if needed else ()
    sets = {name: problems_of(one.path, data.columns_of(name)) for name, one in named}
    return sets, problems_of(data.train, data.columns)


def _sets(
    recipe: Recipe, sets: Sets, of_run: tuple[Verifier, Style | None], stack: ExitStack
) -> dict[str, PreparedSet]:
    """The evaluation sets, each with its own verifier and style classifier, or with the run's."""
    found = {}
    for name, problems in sets.items():
        (verifier, style), own = of_run, recipe.data.sets[name]
        if own.styles is not None:
            style = make_style(own.styles, recipe.data.modules)
        if own.verifier is not None:
            verifier = verifier_maker(recipe)(own.verifier)
            stack.callback(verifier.close)
        found[name] = PreparedSet(name=name, problems=problems, verifier=verifier, style=style)
    return found


def _self_consistency(
    recipe: Recipe, problems: tuple[Problem, ...], sets: Sets, verifier: Verifier, stack: ExitStack
) -> SelfConsistency | None:
    settings = recipe.self_consistency
    if not settings.active:
        return None
    prompts = file_prompts(settings, train=problems, sets=sets)
    comparer = comparer_of(settings, recipe.data, verifier)
    if isinstance(comparer, KeyComparer):  # another one compares by the run's verifier
        stack.callback(comparer.close)
    return SelfConsistency(
        problems=prompts, per_step=settings.problems_per_step, comparer=comparer, seed=recipe.seed
    )


def _require(job: RunJob, config: PreTrainedConfig, stage: Stage) -> None:
    """Refuse inputs that would end a later stage."""
    recipe, own = job.recipe, job.recipe.train.engine == "own"
    limit = recipe.sampling.max_tokens
    engine = ENGINES[recipe.train.engine]
    if stage == "run" and engine.check:
        resolve_name(engine.check)(job)
    if stage in ("run", "evaluate"):
        for chosen in job.sets.values():
            most = recipe.evaluate.max_tokens or limit
            job.prompts.require_fit(config, chosen.problems, max_tokens=most)
    trains = stage in TRAIN and not job.resumed.finished
    if own and trains:
        if missing := missing_extras(recipe):
            raise SettingsError("; ".join(missing))
        make_objective(recipe.objective, recipe.data.modules)
    if stage == "run" or trains:
        for anchor in recipe.objective.active_anchors.values():  # before hours of pre-sampling
            if anchor.pool is not None and anchor.pool.resolve() != job.pool.resolve():
                read_manifest(anchor.pool)
    makes_pool = stage == "presample" or (stage == "run" and job.needs_pool)
    if makes_pool:
        require_free(job.pool)
    elif trains and job.needs_pool and own and not is_made(job.pool):
        raise PoolError(f"there is no pool in {job.pool}; run `dph presample` first")
    draws_pool = own and makes_pool and not is_made(job.pool)
    draws = draws_pool or stage == "evaluate" or (stage == "run" and bool(recipe.data.sets))
    if draws and recipe.sampling.engine == "vllm":
        require_vllm()
    if draws_pool or (own and trains):
        unlabelled = job.self_consistency.problems if job.self_consistency else ()
        for problems in (job.problems, unlabelled):
            job.prompts.require_fit(config, problems, max_tokens=limit)


def _resumed(run: RunDirectory, key: TrainingKey, *, accept: bool) -> Resumed:
    """The state of training in a directory, which must have the same settings and verifier."""
    recipe, verifier, checkpoint = key.recipe, key.verifier, run.newest_checkpoint
    steps, every = recipe.train.steps, recipe.evaluate.every
    if checkpoint is None:
        return Resumed()
    try:
        done = read_progress(checkpoint, digest=key.digest()).step
    except CheckpointError as error:
        raise CheckpointError(
            f"{error} {what_changed(run.recipe_file, recipe)}".rstrip()
        ) from error
    if done > steps:
        raise CheckpointError(
            f"the run in {run.path} is already at step {done}, but train.steps = {steps}: ask for "
            f"{done} or more, or train into another directory (--out)"
        )
    was = _other_version(verifier, checkpoint)
    if was is not None and not accept:
        raise CheckpointError(
            f"{_change(verifier, was)} since the checkpoint {checkpoint} was written; {_HOW}"
        )
    finished = done == steps
    if finished and every and not steps % every:
        finished = steps in measured_steps(read_progress_file(run.progress))
    return Resumed(checkpoint=checkpoint, step=done, finished=finished)


def note_accepted_verifier(job: RunJob) -> None:
    """Record in the checkpoint that another version of the verifier rewards the steps after it."""
    (checkpoint, step), verifier = (job.resumed.checkpoint, job.resumed.step), job.verifier
    if checkpoint is not None and _other_version(verifier, checkpoint) is not None:
        with only_writer(job.directory.path):
            record_verifier(checkpoint, verifier, first_step=step + 1)


def _other_version(verifier: Verifier, checkpoint: Path) -> str | None:
    """The last version of the verifier that a checkpoint names, if it is not the present one."""
    last = next(reversed(read_verifiers(checkpoint)), None)
    if last is None or (last.name, last.version) == (verifier.name, verifier.version):
        return None
    return last.version


def accepted_grading(job: RunJob, pool: Manifest) -> ValueSource:
    """The grading that a pool must have: by the verifier's present version, or an accepted one.

    A version stays accepted once a checkpoint of the run names it.
    """
    expected, verifier = job.grading, job.verifier
    was = pool.values.graded_version
    if pool.values.graded_by != expected.graded_by or was == expected.graded_version:
        return expected
    if not job.accept_verifier:
        checkpoint, had = job.directory.newest_checkpoint, set[str]()
        if checkpoint is not None and _other_version(verifier, checkpoint) is None:
            had = {v.version for v in read_verifiers(checkpoint) if v.name == verifier.name}
        if was not in had:
            raise PoolError(f"{_change(verifier, was)} since the pool {job.pool} was made; {_HOW}")
    return expected.model_copy(update={"graded_version": was})


_HOW = (
    "undo the change, start in another directory (--out), or continue with the current verifier "
    "(dph run or dph train, with --accept-verifier)"
)


def _change(verifier: Verifier, was: str) -> str:
    source, kind = getattr(verifier, "source", None), kind_of(verifier)
    if source is not None:
        return f"the {kind} file {source} (of {verifier.name!r}) changed"
    return f"the {kind} {verifier.name!r} changed, from version {was!r} to {verifier.version!r},"
