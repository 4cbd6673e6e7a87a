"""The training loop: the paper's algorithm on one device.

Deviations from arXiv:2509.07430:
1. Each term of the loss has a denominator of its own (the paper's code divides both by all rows).
2. Groups whose advantages are all 0 are left out of the update when no other term acts on them;
   the gradient is the same.
3. Old log-probs are the sampler's where sampler and trainer compute in the same precision; how
   far those are from the trainer's is measured at the first step, or whenever they are computed
   again.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dph._base.files import only_writer
from dph._base.randomness import derived_seed, generator
from dph.errors import TrainingError
from dph.loss.objectives import make_objective
from dph.model.sampler.graded import GradedSampler
from dph.recipe import Recipe
from dph.records import Problem
from dph.runs.presample.base_counts import BaseCounts
from dph.runs.train.checkpoints import Progress, RunCheckpoints
from dph.runs.train.collect import Collected, Group, collect, uniform_outcomes
from dph.runs.train.evaluations import StepEvaluation
from dph.runs.train.optimizer import make_optimizer, make_schedule
from dph.runs.train.order import drawing_of, stored_of_step
from dph.runs.train.policy_rows import PolicyRows, policy_rows
from dph.runs.train.preparation import (
    Actors,
    Trained,
    asked_to_stop,
    kept_samples,
    require_enough,
    require_kinds,
    require_reference,
    scorers,
    training_forward,
)
from dph.runs.train.recent_answers import RecentAnswers
from dph.runs.train.rows import Minibatch, StoredRow, split_minibatches
from dph.runs.train.tracking import Metrics, MetricsLog, Trackers, open_trackers, step_metrics
from dph.runs.train.updating import (
    NonFiniteLossError,
    UpdateReport,
    first_weights,
    next_weights,
    save_failed_batch,
    update,
)

__all__ = ["Actors", "Trained", "train"]

logger = logging.getLogger(__name__)


def train(
    recipe: Recipe,
    directory: Path,
    actors: Actors,
    problems: Sequence[Problem],
    stored: Mapping[str, Sequence[StoredRow]],
    *,
    digest: str,
    base: BaseCounts | None = None,
    on_start: Callable[[int], None] = lambda _: None,
    on_step: Callable[[Metrics], None] = lambda _: None,
) -> Trained:
    """Train ``actors.policy`` (the weights of the newest checkpoint, if there is one).

    ``stored`` are the samples to rehearse, by the name of the anchor that they are for; ``base``
    says what the initial policy got right, for advantages that read it.
    Everything random is a function of (seed, step), so a run killed at any moment goes on from
    its newest checkpoint and ends with the weights of an uninterrupted one, to the bit on CPU.

    ``actors.evaluations`` measures the policy between steps, without a trace in the weights.
    ``on_start`` is called with the steps that are done already, once everything is known to fit
    together, ``on_step`` with each step's metrics.

    Raises:
        CheckpointError: what was measured so far was measured with other settings.
        PoolError: the stored log-probs are not the policy's.
        TrainingError: the loss is not finite (the batch is saved), or no group holds signal.
        VerifierError: the verifier broke; the steps before are saved.
    """
    run = _Run(recipe, directory, actors, problems, stored, digest, base)
    trackers = open_trackers(recipe.track, recipe, directory)
    with contextlib.closing(trackers), only_writer(directory), asked_to_stop() as stop:
        log = MetricsLog(directory / "metrics.jsonl", step=run.progress.step)
        on_start(run.progress.step)
        run.go_on(log, trackers)
        while run.progress.step < recipe.train.steps and not stop():
            metrics = run.step()
            log.write(metrics)
            trackers.log(metrics, step=run.progress.step)
            on_step(metrics)
            asked = stop()
            if not asked:
                run.begin_evaluation()
            if asked or run.checkpoints.is_due(run.progress.step):
                run.save()
        run.finish_evaluation()
        run.save()  # where it was asked to stop between two steps
    return run.result()


class _Run:
    """A run at some step: what stays the same, and ``progress``, optimizer and schedule."""

    def __init__(
        self,
        recipe: Recipe,
        directory: Path,
        actors: Actors,
        problems: Sequence[Problem],
        stored: Mapping[str, Sequence[StoredRow]],
        digest: str,
        base: BaseCounts | None,
    ) -> None:
        require_enough(problems, recipe)
        self.recipe, self.directory = recipe, directory
        self.actors, self.problems, self.base = actors, problems, base
        self.evaluations = actors.evaluations
        self.objective = make_objective(recipe.objective, recipe.data.modules)
        self.recent = RecentAnswers(recipe.objective.active_anchors)
        self.stored = {n: stored[n] for n in self.objective.anchors if n not in self.recent}
        require_kinds(self.objective, self.stored)
        if self.evaluations is not None:
            self.evaluations.require_same_settings()
        self.forward = training_forward(recipe, actors, self.objective)
        self.optimizer = make_optimizer(actors.policy, recipe.train, seed=recipe.seed)
        self.checkpoints = RunCheckpoints(
            directory / "checkpoints",
            recipe,
            actors,
            self.optimizer,
            digest=digest,
            also=self.recent.write,
        )
        self.progress = self.checkpoints.restored
        if self.checkpoints.newest is not None:
            self.recent.read(self.checkpoints.newest, step=self.progress.step)
        self.weights = first_weights(self.objective) | dict(self.progress.weights)
        self.on_measured: Callable[[StepEvaluation], None] = lambda _: None
        self.schedule = make_schedule(
            self.optimizer, recipe.train, done=self.progress.optimizer_steps
        )
        self.kept = kept_samples(recipe, directory, actors, problems)
        self.said_uniform = False
        if not self.progress.step:
            for samples in self.stored.values():
                require_reference(samples, self.forward)

    def step(self) -> Metrics:
        """Roll out, compare within groups, mix with stored samples, update."""
        started = time.perf_counter()
        step = self.progress.step + 1
        learning_rate = float(self.schedule.get_last_lr()[0])
        with self.checkpoints.saved_if_the_verifier_breaks(self.progress):
            rollout = self._roll_out(step)
        self.finish_evaluation()
        self.kept.write(rollout.drawn, step)
        rolled_out = time.perf_counter()
        groups = self._shuffled(rollout.groups, step)
        rows = self._rows(groups, step)
        reports = [
            self._learn(minibatch, step, place)
            for place, minibatch in enumerate(self._minibatches(rows, step))
        ]
        self.recent.add(groups, rows.groups, step=step)
        self.progress = Progress(
            step=step,
            optimizer_steps=self.progress.optimizer_steps + len(reports),
            position=rollout.position,
            weights=self.weights,
        )
        metrics = step_metrics(rollout, reports, rows.gap, step=step, learning_rate=learning_rate)
        seconds = time.perf_counter() - started
        return {
            **metrics,
            **self.recent.metrics(),
            "seconds_update": time.perf_counter() - rolled_out,
            "seconds": seconds,
            "tokens_per_second": (metrics["tokens"] or 0) / seconds,
        }

    def _roll_out(self, step: int) -> Collected:
        rollout = collect(
            self.problems,
            _of_one_step(self.actors.draw),
            self.progress.position,
            step=step,
            seed=self.recipe.seed,
            train=self.recipe.train,
            objective=self.recipe.objective,
            unlabelled=self.actors.self_consistency,
        )
        if not self.said_uniform and (what := uniform_outcomes(rollout.drawn)):
            self.said_uniform = True  # once: what is wrong with the first is wrong with the next
            logger.warning("step %d: %s", step, what)
        return rollout

    def _shuffled(self, groups: Sequence[Group], step: int) -> list[Group]:
        # So that the groups of a refill do not end up in one mini-batch.
        order = generator(self.recipe.seed, "minibatches", step).permutation(len(groups))
        return [groups[i] for i in order]

    def _rows(self, groups: Sequence[Group], step: int) -> PolicyRows:
        """The rows of the rollout, whose log-probs are checked at the run's first step."""
        return policy_rows(
            groups,
            self.forward,
            scorers(self.recipe, self.actors, self.objective),
            objective=self.objective,
            settings=self.recipe.objective,
            base=self.base,
            check_sampler=step == 1,
        )

    def _minibatches(self, rows: PolicyRows, step: int) -> Iterator[Minibatch]:
        """Every optimizer step's share of groups and stored samples, epoch after epoch."""
        train, anchors = self.recipe.train, self.recipe.objective.anchors
        stored = {
            name: stored_of_step(
                samples,
                drawing_of(anchors[name], train.rehearsal_per_step),
                step,
                seed=self.recipe.seed,
            )
            for name, samples in {**self.stored, **self.recent.samples()}.items()
        }
        for _ in range(train.epochs):
            yield from split_minibatches(rows.groups, stored, train.minibatches)

    def _learn(self, minibatch: Minibatch, step: int, place: int) -> UpdateReport:
        try:
            report = update(
                minibatch,
                self.forward,
                self.optimizer,
                objective=self.objective.with_weights(self.weights),
                max_grad_norm=self.recipe.train.max_grad_norm,
                seed=derived_seed(self.recipe.seed, "tokens", step, place),
            )
        except NonFiniteLossError as error:
            path = self.directory / f"failed_batch_step_{step:06d}.json"
            save_failed_batch(path, error, step=step)
            raise TrainingError(f"step {step}: {error}; its rows are in {path}") from error
        self.schedule.step()
        self.weights = next_weights(self.objective, self.weights, report.anchors)
        return report

    def go_on(self, log: MetricsLog, trackers: Trackers) -> None:
        """Go on from the newest checkpoint; what is measured from now on is written there."""

        def write(measured: StepEvaluation) -> None:
            log.amend(measured.step, measured.metrics)
            trackers.log(measured.metrics, step=measured.step)
            trackers.log_tables(measured.tables, step=measured.step)

        self.on_measured = write
        self.kept.go_on(self.progress.step)
        if self.evaluations is not None:
            self._take_in(self.evaluations.go_on(self.progress.step))

    def begin_evaluation(self) -> None:
        """Draw the answers of an evaluation, if one is due."""
        if self.evaluations is not None and self.evaluations.is_due(self.progress.step):
            with self.checkpoints.saved_if_the_verifier_breaks(self.progress):
                self.evaluations.begin(self.progress.step)

    def finish_evaluation(self) -> None:
        """Take in what was begun after the last finished step, whose weights are still there."""
        if self.evaluations is not None:
            with self.checkpoints.saved_if_the_verifier_breaks(self.progress):
                self._take_in(self.evaluations.finish())

    def _take_in(self, found: Sequence[StepEvaluation]) -> None:
        for measured in found:
            self.on_measured(measured)
            if measured.score is not None and measured.step == self.progress.step > 0:
                self.checkpoints.keep_if_best(self.progress, measured.score)

    def save(self) -> Path:
        """Write a checkpoint, unless there is one of this step."""
        return self.checkpoints.save(self.progress)

    def result(self) -> Trained:
        """Result at the end."""
        step = self.progress.step
        return Trained(checkpoint=self.save(), step=step, stopped=step < self.recipe.train.steps)


def _of_one_step(draw: GradedSampler) -> GradedSampler:
    # Another draw (verl's, a test's) grades by itself and counts no crashes.
    return draw.counted_together() if isinstance(draw, GradedSampler) else draw
