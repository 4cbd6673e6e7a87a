"""The training loop: the paper's algorithm on one device.

Deviations from arXiv:2509.07430:
1. Each term of the loss has a denominator of its own (the paper's code divides both by all rows).
2. Groups whose advantages are all 0 are left out of the update when no other term acts on them;
   the gradient is the same.
3. Old log-probs are the sampler's where sampler and trainer compute in the same precision.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph.errors import SettingsError, TrainingError
from dph.files import make_directory
from dph.presampling.pool import RehearsalSample
from dph.records import Problem
from dph.rollout.graded import GradedSampler
from dph.rollout.randomness import generator
from dph.settings import Recipe
from dph.training.checkpoints import (
    Progress,
    latest_checkpoint,
    load_optimizer,
    read_progress,
    save_checkpoint,
)
from dph.training.checks import require_reference
from dph.training.collect import Group, collect
from dph.training.failure import save_failed_batch
from dph.training.interruption import asked_to_stop
from dph.training.metrics import Metrics, step_metrics
from dph.training.optimizer import make_optimizer, make_schedule
from dph.training.order import rehearsal_of_step
from dph.training.policy_rows import Scorers, policy_rows
from dph.training.rows import split_minibatches
from dph.training.tracking import MetricsLog, open_trackers
from dph.training.update import Forward, NonFiniteLossError, UpdateReport, update


@dataclass(frozen=True, slots=True, kw_only=True)
class Actors:
    """The policy, who samples and grades for it, and the initial policy where one is needed."""

    policy: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    reference: PreTrainedModel | None
    draw: GradedSampler


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Where the weights are, and whether training was stopped before its last step."""

    checkpoint: Path
    step: int
    stopped: bool


def train(
    recipe: Recipe,
    directory: Path,
    actors: Actors,
    problems: Sequence[Problem],
    rehearsal: Sequence[RehearsalSample],
    *,
    digest: str,
    on_start: Callable[[int], None] = lambda _: None,
    on_step: Callable[[Metrics], None] = lambda _: None,
) -> Trained:
    """Train ``actors.policy`` (the weights of the newest checkpoint, if there is one).

    Everything random is a function of (seed, step), so a run killed at any moment goes on from
    its newest checkpoint and ends with the weights of an uninterrupted one, to the bit on CPU.

    ``on_start`` is called with the steps that are done already, ``on_step`` with each step's
    metrics.

    Raises:
        PoolError: the stored log-probs are not the policy's.
        TrainingError: the loss is not finite (the batch is saved), or no group holds signal.
    """
    _require_enough(problems, recipe)
    state = _restore(recipe, directory, actors, digest)
    forward = _forward(recipe, actors)
    if recipe.objective.rehearses and not state.progress.step:
        require_reference(rehearsal, forward)
    log = MetricsLog(make_directory(directory) / "metrics.jsonl", step=state.progress.step)
    trackers = open_trackers(recipe.track, recipe, directory)
    on_start(state.progress.step)
    try:
        with asked_to_stop() as stop:
            while state.progress.step < recipe.train.steps and not stop():
                metrics = _step(recipe, directory, actors, forward, state, problems, rehearsal)
                log.write(metrics)
                trackers.log(metrics, step=state.progress.step)
                on_step(metrics)
                if _checkpoint_is_due(state.progress.step, recipe) or stop():
                    state.save(recipe, directory, actors, digest)
    finally:
        trackers.close()
    checkpoint = latest_checkpoint(directory / "checkpoints")
    if checkpoint is None:  # stopped before the first step
        checkpoint = state.save(recipe, directory, actors, digest)
    step = state.progress.step
    return Trained(checkpoint=checkpoint, step=step, stopped=step < recipe.train.steps)


def _step(
    recipe: Recipe,
    directory: Path,
    actors: Actors,
    forward: Forward,
    state: "_State",
    problems: Sequence[Problem],
    rehearsal: Sequence[RehearsalSample],
) -> Metrics:
    """Algorithm: roll out, compare within groups, mix with stored samples, update."""
    started = time.perf_counter()
    step, objective = state.progress.step + 1, recipe.objective
    collected = collect(
        problems,
        actors.draw,
        state.progress.position,
        step=step,
        seed=recipe.seed,
        train=recipe.train,
        objective=objective,
    )
    rolled_out = time.perf_counter()
    groups = policy_rows(
        _shuffled(collected.groups, recipe, step),
        forward,
        _scorers(recipe, actors),
        objective=objective,
    )
    stored = rehearsal_of_step(
        rehearsal if objective.rehearses else (),
        recipe.train.rehearsal_per_step,
        step,
        seed=recipe.seed,
    )
    reports: list[UpdateReport] = []
    learning_rate = float(state.schedule.get_last_lr()[0])
    for minibatch in (
        split_minibatches(groups, stored, recipe.train.minibatches) * recipe.train.epochs
    ):
        try:
            reports.append(
                update(
                    minibatch,
                    forward,
                    state.optimizer,
                    objective=objective,
                    max_grad_norm=recipe.train.max_grad_norm,
                )
            )
        except NonFiniteLossError as error:
            path = directory / f"failed_batch_step_{step:06d}.json"
            save_failed_batch(path, error, step=step)
            raise TrainingError(f"step {step}: {error}; its rows are in {path}") from error
        state.schedule.step()
    state.progress = Progress(
        step=step,
        optimizer_steps=state.progress.optimizer_steps + len(reports),
        position=collected.position,
    )
    metrics = step_metrics(collected, reports, step=step, learning_rate=learning_rate)
    seconds = time.perf_counter() - started
    return {
        **metrics,
        "seconds_update": time.perf_counter() - rolled_out,
        "seconds": seconds,
        "tokens_per_second": (metrics["tokens"] or 0) / seconds,
    }


class _State:
    """What changes from step to step beside the weights."""

    def __init__(self, recipe: Recipe, actors: Actors, progress: Progress) -> None:
        self.progress = progress
        self.optimizer = make_optimizer(actors.policy, recipe.train)
        self.schedule = make_schedule(self.optimizer, recipe.train, done=progress.optimizer_steps)

    def save(self, recipe: Recipe, directory: Path, actors: Actors, digest: str) -> Path:
        """Write a checkpoint."""
        return save_checkpoint(
            directory / "checkpoints",
            self.progress,
            actors.policy,
            actors.tokenizer,
            self.optimizer,
            digest=digest,
            keep=recipe.train.keep_checkpoints,
        )


def _restore(recipe: Recipe, directory: Path, actors: Actors, digest: str) -> _State:
    checkpoint = latest_checkpoint(directory / "checkpoints")
    if checkpoint is None:
        return _State(recipe, actors, Progress())
    state = _State(recipe, actors, read_progress(checkpoint, digest=digest))
    load_optimizer(checkpoint, state.optimizer)
    return state


def _forward(recipe: Recipe, actors: Actors) -> Forward:
    return Forward(
        model=actors.policy,
        pad_id=int(actors.tokenizer.pad_token_id),
        temperature=recipe.sampling.temperature,
        dtype=recipe.model.dtype,
        token_budget=recipe.train.microbatch_tokens,
        max_tokens=recipe.sampling.max_tokens,
    )


def _scorers(recipe: Recipe, actors: Actors) -> Scorers:
    wanted = recipe.train.old_logprobs
    recompute = wanted == "recompute" or (wanted == "auto" and recipe.model.dtype != "float32")
    return Scorers(old=actors.policy if recompute else None, reference=actors.reference)


def _shuffled(groups: Sequence[Group], recipe: Recipe, step: int) -> list[Group]:
    """Groups in an order of their own, so that refills do not end up in one mini-batch."""
    order = generator(recipe.seed, "minibatches", step).permutation(len(groups))
    return [groups[i] for i in order]


def _checkpoint_is_due(step: int, recipe: Recipe) -> bool:
    return step % recipe.train.checkpoint_every == 0 or step == recipe.train.steps


def _require_enough(problems: Sequence[Problem], recipe: Recipe) -> None:
    if len(problems) < recipe.train.problems_per_step:
        raise SettingsError(
            f"train.problems_per_step = {recipe.train.problems_per_step}, but there are only "
            f"{len(problems)} problems to explore"
        )
