"""The training loop: the paper's algorithm on one device.

``step`` is the algorithm. ``train`` repeats it, and a ``_Recorder`` watches.

Deviations from arXiv:2509.07430:
1. Each term of the loss has its own denominator (the paper's code divides both by all rows).
2. Groups whose advantages are all 0 are left out of the update when no other term acts on them;
   the gradient is the same.
3. Old log-probs are the sampler's if sampler and trainer compute in float32. In 16 bits the
   first optimizer step after a rollout takes those of its own gradient pass, so that its ratios
   are 1; rows of later ones are scored before it. That pass measures the distance of the sampler's
   log-probs from the trainer's.
"""

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

import torch
from torch.optim.lr_scheduler import LRScheduler
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph._base.files import only_writer
from dph._base.randomness import generator
from dph.errors import CheckpointError, SettingsError, TrainingError
from dph.loss.objectives import Objective
from dph.model.sampler.episodes import AnswerSampler
from dph.recipe import Recipe
from dph.records import Problem
from dph.runs.answers import scorer_of
from dph.runs.directory import RunDirectory
from dph.runs.objective import make_objective
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.checkpoints import Progress, RunCheckpoints
from dph.runs.train.collect import Collected, SelfConsistency, collect, uniform_outcomes
from dph.runs.train.evaluations import Evaluations, StepEvaluation
from dph.runs.train.kept_samples import KeptSamples
from dph.runs.train.optimizer import make_optimizer, make_schedule
from dph.runs.train.policy_rows import (
    Scorers,
    policy_rows,
    require_reference,
    scorers_of,
    warn_of_gap,
)
from dph.runs.train.rows import Minibatch, PolicyRow, Position, split_minibatches, stored_of_step
from dph.runs.train.tracking import (
    Metrics,
    MetricsLog,
    Trackers,
    open_trackers,
    peak_memory,
    step_metrics,
)
from dph.runs.train.updating import NonFiniteLossError, TrainingForward, save_failed_batch, update

__all__ = ["Actors", "Trained", "train"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actors:
    """The policy, its sampler and verifier, and further parts that only some methods need."""

    policy: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    reference: PreTrainedModel | None
    draw: AnswerSampler
    self_consistency: SelfConsistency | None = None
    evaluations: Evaluations | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Location of the weights, and whether training was stopped before its last step."""

    checkpoint: Path
    step: int
    stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner:
    """Parts of a run that its steps need; ``stored`` are the samples of each anchor, by name."""

    recipe: Recipe
    actors: Actors
    problems: Sequence[Problem]
    stored: Mapping[str, Sequence[RehearsalSample]]
    objective: Objective
    forward: TrainingForward
    scorers: Scorers
    optimizer: torch.optim.Optimizer
    schedule: LRScheduler


def step(
    state: Progress, learner: Learner, on_rollout: Callable[[Collected], None] = lambda _: None
) -> tuple[Progress, Metrics]:
    """Sample, grade, compare within groups, mix with stored samples, update.

    ``on_rollout`` sees the graded answers before anything is learnt from them.
    """
    recipe, objective, number = learner.recipe, learner.objective, state.step + 1
    started, rate = time.perf_counter(), float(learner.schedule.get_last_lr()[0])
    rollout = _sample_and_grade(learner, state.position, number)
    on_rollout(rollout)
    rolled_out = time.perf_counter()
    # Shuffled, so that the groups of a refill do not end up in one mini-batch.
    order = generator(recipe.seed, "minibatches", number).permutation(len(rollout.groups))
    rows = policy_rows(  # with their advantages
        [rollout.groups[i] for i in order],
        learner.forward,
        learner.scorers,
        objective=objective,
        settings=recipe.objective,
    )
    reports = []
    for place, minibatch in enumerate(_minibatches(learner, rows.groups, number)):
        report = update(  # by the gradient of the mixed loss
            minibatch,
            learner.forward,
            learner.optimizer,
            objective=objective,
            max_grad_norm=recipe.train.max_grad_norm,
            on_policy=learner.scorers.first_of > 0 and place == 0,
        )
        learner.schedule.step()
        reports.append(report)
    done = state.optimizer_steps + len(reports)
    again = learner.scorers.old is not None and not learner.scorers.first_of
    gap = rows.gap if again else reports[0].gap  # the rows hold the sampler's log-probs there
    warn_of_gap(gap, dtype=learner.forward.dtype)
    metrics = step_metrics(rollout, reports, gap, step=number, learning_rate=rate)
    now = time.perf_counter()
    metrics |= {
        "seconds_update": now - rolled_out,
        "seconds": now - started,
        "tokens_per_second": (metrics["tokens"] or 0) / (now - started),
        **peak_memory(),
    }
    return Progress(step=number, optimizer_steps=done, position=rollout.position), metrics


def _sample_and_grade(learner: Learner, position: Position, number: int) -> Collected:
    draw, recipe = learner.actors.draw, learner.recipe
    return collect(
        learner.problems,
        # Another draw (verl's, a test's) grades by itself and counts no crashes.
        draw.counted_together() if isinstance(draw, AnswerSampler) else draw,
        position,
        step=number,
        seed=recipe.seed,
        train=recipe.train,
        objective=recipe.objective,
        unlabelled=learner.actors.self_consistency,
    )


def _minibatches(
    learner: Learner, groups: Sequence[Sequence[PolicyRow]], number: int
) -> Iterator[Minibatch]:
    """Every optimizer step's share of groups and stored samples, epoch after epoch."""
    train, anchors = learner.recipe.train, learner.recipe.objective.anchors
    stored = {
        name: stored_of_step(
            samples, anchors[name], number, count=train.rehearsal_per_step, seed=learner.recipe.seed
        )
        for name, samples in learner.stored.items()
    }
    for _ in range(train.epochs):
        yield from split_minibatches(groups, stored, train.minibatches)


def train(
    recipe: Recipe,
    directory: Path,
    actors: Actors,
    problems: Sequence[Problem],
    stored: Mapping[str, Sequence[RehearsalSample]],
    *,
    digest: str,
    loaded: Path | None = None,
    on_start: Callable[[int], None] = lambda _: None,
    on_step: Callable[[Metrics], None] = lambda _: None,
) -> Trained:
    """Train ``actors.policy``, whose weights are those of ``loaded``, the newest checkpoint if any.

    Everything random is a function of (seed, step), so that a run killed at any moment continues
    from its newest checkpoint and ends with the weights of an uninterrupted one, to the bit on CPU.
    ``stored`` are the samples to rehearse, by the name of their anchor. ``actors.evaluations``
    measures the policy between steps and changes no weight. ``on_start`` is called with the steps
    that are done already, once everything is known to fit together, ``on_step`` with each step's
    metrics.

    Raises:
        CheckpointError: earlier evaluations have other settings; or ``loaded`` is not the newest
            checkpoint, because another process trained meanwhile.
        PoolError: the stored log-probs are not the policy's.
        TrainingError: the loss is not finite (the batch is saved), or no group holds signal.
        VerifierError: the verifier broke; the steps before are saved.
    """
    learner, checkpoints = _begin(recipe, directory, actors, problems, stored, digest)
    state = checkpoints.restored
    with only_writer(directory), asked_to_stop() as stop, contextlib.ExitStack() as stack:
        if not loaded == checkpoints.newest == RunDirectory(directory).newest_checkpoint:
            raise CheckpointError(
                f"another process trained in {directory} while this one began: start it again"
            )
        trackers = open_trackers(recipe.track, recipe, directory)
        stack.callback(trackers.close)
        recorder = _Recorder(learner, directory, checkpoints, trackers)
        on_start(state.step)
        recorder.go_on()
        while state.step < recipe.train.steps and not stop():
            with _explained(state, directory), checkpoints.saved_if_nothing_is_learnt(state):
                state, metrics = step(state, learner, recorder.on_rollout)
            recorder.on_step(state, metrics)
            on_step(metrics)
            asked = stop()
            if not asked:
                recorder.begin_evaluation()
            if asked or checkpoints.is_due(state.step):
                checkpoints.save(state)
        recorder.finish_evaluation()
        checkpoint = checkpoints.save(state)  # unless there is one: it may stop between two steps
    return Trained(checkpoint=checkpoint, step=state.step, stopped=state.step < recipe.train.steps)


def _begin(
    recipe: Recipe,
    directory: Path,
    actors: Actors,
    problems: Sequence[Problem],
    stored: Mapping[str, Sequence[RehearsalSample]],
    digest: str,
) -> tuple[Learner, RunCheckpoints]:
    """Check that everything fits together; optimizer and schedule as of the newest checkpoint."""
    if len(problems) < recipe.labelled_per_step:
        more = " in addition to the unlabelled ones" * recipe.self_consistency.active
        raise SettingsError(
            f"a step takes {recipe.labelled_per_step} problems{more}, but there are only "
            f"{len(problems)} problems to explore"
        )
    if actors.evaluations is not None:
        actors.evaluations.require_same_settings()
    optimizer = make_optimizer(actors.policy, recipe.train, seed=recipe.seed)
    checkpoints = RunCheckpoints(
        RunDirectory(directory).checkpoints,
        recipe,
        actors.policy,
        actors.tokenizer,
        optimizer,
        verifier=actors.draw.graded_by,
        digest=digest,
    )
    done = checkpoints.restored
    learner = make_learner(
        recipe, actors, problems, stored, optimizer=optimizer, done=done.optimizer_steps
    )
    if not done.step:
        for samples in learner.stored.values():
            require_reference(samples, learner.forward)
    return learner, checkpoints


def make_learner(
    recipe: Recipe,
    actors: Actors,
    problems: Sequence[Problem],
    stored: Mapping[str, Sequence[RehearsalSample]],
    *,
    optimizer: torch.optim.Optimizer,
    done: int = 0,
) -> Learner:
    """The parts of a step, for a run that has ``done`` optimizer steps."""
    objective = make_objective(recipe.objective, recipe.data.modules)
    forward = TrainingForward(
        model=actors.policy,
        **asdict(scorer_of(recipe, actors.tokenizer)),
        max_tokens=recipe.answer_tokens,
        reference=actors.reference if objective.reads_reference_tables else None,
    )
    return Learner(
        recipe=recipe,
        actors=actors,
        problems=problems,
        stored={name: stored[name] for name in objective.anchors},
        objective=objective,
        forward=forward,
        scorers=scorers_of(
            recipe.train,
            objective,
            policy=actors.policy,
            reference=actors.reference,
            dtype=forward.dtype,
        ),
        optimizer=optimizer,
        schedule=make_schedule(optimizer, recipe.train, done=done),
    )


@contextlib.contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C (SIGINT) or SIGTERM came.

    The second Ctrl-C raises KeyboardInterrupt at once. Outside the main thread Python allows no
    handlers, and the function always says no.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop.is_set
        return

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _explained(state: Progress, directory: Path) -> Iterator[None]:
    """Save the rows of a loss that is not finite, and name their file."""
    try:
        yield
    except NonFiniteLossError as error:
        number = state.step + 1
        path = directory / f"failed_batch_step_{number:06d}.json"
        save_failed_batch(path, error, step=number)
        raise TrainingError(f"step {number}: {error}; its rows are in {path}") from error


class _Recorder:
    """Writes metrics, some answers, and evaluations of a run."""

    def __init__(
        self, learner: Learner, directory: Path, checkpoints: RunCheckpoints, trackers: Trackers
    ) -> None:
        self._checkpoints, self._trackers = checkpoints, trackers
        self._state, self._evaluations = checkpoints.restored, learner.actors.evaluations
        self._log = MetricsLog(RunDirectory(directory).metrics, step=self._state.step)
        unlabelled = learner.actors.self_consistency
        self._kept = KeptSamples(
            directory,
            keep=learner.recipe.train.keep_samples,
            megabytes=learner.recipe.train.keep_samples_mb,
            seed=learner.recipe.seed,
            labelled=learner.problems,
            unlabelled=unlabelled.problems if unlabelled is not None else (),
        )
        self._said_uniform = False

    def go_on(self) -> None:
        """Continue from the newest checkpoint."""
        self._kept.go_on(self._state.step)
        if self._evaluations is not None:
            self._record(self._evaluations.go_on(self._state.step))

    def on_rollout(self, rollout: Collected) -> None:
        """Keep the answers of the next step, before anything is learnt from them."""
        number = self._state.step + 1
        if not self._said_uniform and (what := uniform_outcomes(rollout.drawn)):
            self._said_uniform = True  # once: later rollouts have the same fault
            logger.warning("step %d: %s", number, what)
        self.finish_evaluation()
        self._kept.write(rollout.drawn, number)

    def on_step(self, state: Progress, metrics: Metrics) -> None:
        """Write down a finished step."""
        self._state = state
        self._log.write(metrics)
        self._trackers.log(metrics, step=state.step)

    def begin_evaluation(self) -> None:
        """Draw the answers of an evaluation, if one is due."""
        if self._evaluations is not None and self._evaluations.is_due(self._state.step):
            with self._checkpoints.saved_if_nothing_is_learnt(self._state):
                self._evaluations.begin(self._state.step)

    def finish_evaluation(self) -> None:
        """Record the evaluation of the last finished step, whose weights are still in memory."""
        if self._evaluations is not None:
            with self._checkpoints.saved_if_nothing_is_learnt(self._state):
                self._record(self._evaluations.finish())

    def _record(self, found: Sequence[StepEvaluation]) -> None:
        for measured in found:
            self._log.amend(measured.step, measured.metrics)
            self._trackers.log(measured.metrics, step=measured.step)
            self._trackers.log_tables(measured.tables, step=measured.step)
            if measured.score is not None and measured.step == self._state.step > 0:
                self._checkpoints.keep_if_best(self._state, measured.score)
