"""The training stage of a run: from the pool, or from all problems, to a checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedModel

from dph.errors import CheckpointError, PoolError
from dph.model.adapter import has_adapter, without_adapter
from dph.model.sampler.graded import GradedSampler
from dph.records import Problem
from dph.runs.during_training import (
    compares_with_initial,
    evaluations,
    is_measured,
)
from dph.runs.layout import latest_checkpoint, note_beginning, pool_directory
from dph.runs.pool_need import needs_pool, reads_base_counts
from dph.runs.presample.base_counts import BaseCounts, read_base_counts
from dph.runs.presample.diagnosis import require_usable
from dph.runs.presample.pool import Pool, load_pool, require_fit
from dph.runs.progress import ProgressDisplay
from dph.runs.result_model import ended
from dph.runs.store_stage import require_made, stored_samples
from dph.runs.train.checkpoints import read_progress
from dph.runs.train.loop import Actors, Trained, train
from dph.runs.train.tracking import Metrics
from dph.runs.training_digest import training_digest, what_changed
from dph.runs.unlabelled import self_consistency
from dph.runs.verifier_change import accepted_source, require_same_verifier
from dph.runs.workbench import Workbench


def train_stage(
    bench: Workbench, directory: Path, progress: ProgressDisplay, *, digest: str | None = None
) -> Trained:
    """Train, or continue from the newest checkpoint in ``directory``.

    ``digest`` is that of ``training_digest``, where it is known already.

    Raises:
        PoolError: the method needs a pool, and there is none, it does not fit or holds too little.
        CheckpointError: the directory holds a run with other settings, with more steps, or with
            another version of the verifier that was not accepted.
        TrainingError: training cannot go on.
        VerifierError: the verifier broke; the steps before are saved.
    """
    recipe, digest = bench.recipe, digest or training_digest(bench, directory)
    checkpoint = latest_checkpoint(directory / "checkpoints")
    done = steps_done(bench, directory, digest)
    if checkpoint is not None and done == recipe.train.steps and is_measured(recipe, directory):
        return ended(Trained(checkpoint=checkpoint, step=done, stopped=False), recipe.evaluate)
    trained = _train(bench, directory, progress, checkpoint=checkpoint, digest=digest)
    return ended(trained, recipe.evaluate)


def _train(
    bench: Workbench,
    directory: Path,
    progress: ProgressDisplay,
    *,
    checkpoint: Path | None,
    digest: str,
) -> Trained:
    """Train from ``checkpoint``, or from the initial policy where there is none."""
    recipe, initial = bench.recipe, checkpoint is None
    require_made(bench, directory)
    policy = bench.load_policy(checkpoint)
    unadapted = without_adapter(policy)
    draw = bench.draw(policy)
    pool = _fitting_pool(bench, directory, unadapted, draw, initial=initial)
    problems = _problems(bench, pool)
    bench.require_prompts_fit(policy.config, problems, max_tokens=draw.parameters.max_tokens)
    source = bench.source(unadapted, draw)
    stored = stored_samples(recipe, directory, pool, source, initial=initial)
    before = _initial_policy(bench, unadapted if has_adapter(policy) else None)
    with (
        self_consistency(bench, directory, source, initial=initial) as unlabelled,
        evaluations(bench, directory, draw, policy, before.for_evaluations) as measuring,
        progress.task(f"training {recipe.method}", recipe.train.steps, "steps") as advance,
    ):
        if unlabelled is not None:
            limit = draw.parameters.max_tokens
            bench.require_prompts_fit(policy.config, unlabelled.problems, max_tokens=limit)

        def start(step: int) -> None:
            note_beginning(recipe, directory, done=step)
            advance(step, "")

        return train(
            recipe,
            directory,
            Actors(
                policy=policy,
                tokenizer=bench.tokenizer,
                reference=before.for_training,
                draw=draw,
                self_consistency=unlabelled,
                evaluations=measuring,
            ),
            problems,
            stored,
            digest=digest,
            base=_base_counts(bench, directory, pool),
            on_start=start,
            on_step=lambda metrics: advance(1, _note(metrics)),
        )


class _InitialPolicy(NamedTuple):
    """The initial policy, loaded once for whoever needs it; with an adapter never."""

    for_training: PreTrainedModel | None
    for_evaluations: PreTrainedModel | None


def _initial_policy(bench: Workbench, unadapted: PreTrainedModel | None) -> _InitialPolicy:
    recipe = bench.recipe
    trains, compares = (
        recipe.objective.reads_reference(recipe.data.modules),
        compares_with_initial(recipe),
    )
    if not (trains or compares):
        return _InitialPolicy(None, None)
    model = unadapted or bench.load_model(bench.initial).requires_grad_(False)
    return _InitialPolicy(model if trains else None, model if compares else None)


def steps_done(bench: Workbench, directory: Path, digest: str) -> int:
    """Steps that the run in ``directory`` has done; 0 where there is none.

    Raises:
        CheckpointError: it is a run with other settings, with more steps, or with another version
            of the verifier that was not accepted.
    """
    recipe, checkpoint = bench.recipe, latest_checkpoint(directory / "checkpoints")
    if checkpoint is None:
        return 0
    try:
        done = read_progress(checkpoint, digest=digest).step
    except CheckpointError as error:
        changed = what_changed(directory / "recipe.toml", recipe)
        raise CheckpointError(f"{error} {changed}".rstrip()) from error
    if done > recipe.train.steps:
        raise CheckpointError(
            f"the run in {directory} is already at step {done}, but train.steps = "
            f"{recipe.train.steps}: ask for {done} or more, or train into another directory (--out)"
        )
    require_same_verifier(bench, directory, checkpoint, step=done)
    return done


def _note(metrics: Metrics) -> str:
    if not metrics["tokens"]:
        return f"divergence {metrics['divergence']:.4f}"
    note = f"reward {metrics['reward']:.2f}, {metrics['unfinished'] or 0:.0%} cut off"
    styles = metrics["effective_styles"]
    return note if styles is None else f"{note}, styles {styles:.1f}"


def _fitting_pool(
    bench: Workbench,
    directory: Path,
    policy: PreTrainedModel,
    draw: GradedSampler,
    *,
    initial: bool,
) -> Pool | None:
    if not needs_pool(bench.recipe):
        return None
    path = pool_directory(bench.recipe, directory)
    if not (path / "manifest.json").exists():
        raise PoolError(f"there is no pool in {path}; run `dph presample` first")
    pool = load_pool(path)
    expected = bench.source(policy, draw)
    if not initial:  # the weights have moved on since; everything else must still fit
        stored = pool.manifest.source.model_fingerprint
        expected = expected.model_copy(update={"model_fingerprint": stored})
    expected = accepted_source(bench, directory, expected, pool.manifest.source, pool=path)
    require_fit(path, pool.manifest, expected, bench.rule())
    train = bench.recipe.train
    require_usable(
        path,
        pool.manifest,
        rehearses=bench.recipe.objective.rehearses_pool,
        explores=bench.recipe.labelled_per_step if train.problems == "exploration" else 0,
    )
    return pool


def _base_counts(bench: Workbench, directory: Path, pool: Pool | None) -> BaseCounts | None:
    if pool is None or not reads_base_counts(bench.recipe):
        return None
    return read_base_counts(pool_directory(bench.recipe, directory), pool.manifest)


def _problems(bench: Workbench, pool: Pool | None) -> Sequence[Problem]:
    if bench.recipe.train.problems == "exploration" and pool is not None:
        return pool.exploration
    return bench.problems
