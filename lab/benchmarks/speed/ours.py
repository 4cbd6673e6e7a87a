"""Our side: the training step as the loop of dph.runs.train takes it, and its parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PreTrainedModel

from dph.model.forward.sharing import Sharing
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.graded import GradedSampler
from dph.model.sampler.torch.sampler import TorchSampler
from dph.recipe import ObjectiveSettings, TrainingSettings
from dph.records import Completion, Outcome, Problem, Verdict
from dph.runs.objective import make_objective
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.collect import Collected, collect
from dph.runs.train.optimizer import make_optimizer
from dph.runs.train.policy_rows import Scorers, policy_rows
from dph.runs.train.rows import Minibatch, PolicyRow, Position, split_minibatches
from dph.runs.train.updating import TrainingForward, update
from lab.benchmarks.speed.runs import Run
from lab.benchmarks.speed.shapes import FULL_STEP
from lab.benchmarks.speed.timing import StepTime, clock, synchronize
from lab.benchmarks.speed.world import (
    PAD,
    World,
    build_model,
    build_tokenizer,
    make_prompts,
    reward,
)

GRPO = ObjectiveSettings()


@dataclass(slots=True)
class EvenWords:
    """The reward of the world as a verifier."""

    name: str = "even_words"
    version: str = "1"

    @property
    def settings(self) -> dict[str, Any]:
        """None."""
        return {}

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each response."""
        del problems
        return [Verdict(outcome=Outcome.CORRECT, reward=reward(text)) for text in responses]

    def close(self) -> None:
        """Nothing to stop."""


@dataclass(slots=True)
class GradesAll:
    """A sampler whose completions all count as finished.

    Ours gives no reward to what ``max_tokens`` cut off and then leaves a group of nothing else out
    of the update; the peer grades it. At full length that would be the whole batch.
    """

    sampler: TorchSampler

    def sample(
        self,
        requests: Sequence[SampleRequest],
        parameters: SamplingParameters,
        *,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
        on_completion: Callable[[int, Completion], None] | None = None,
    ) -> list[list[Completion]]:
        """The completions of the sampler inside."""

        def hand_over(position: int, completion: Completion) -> None:
            if on_completion:
                on_completion(position, replace(completion, finished=True))

        drawn = self.sampler.sample(
            requests, parameters, seed=seed, on_progress=on_progress, on_completion=hand_over
        )
        return [[replace(completion, finished=True) for completion in group] for group in drawn]


class Ours:
    """A policy and what its training steps need."""

    def __init__(
        self,
        world: World,
        model: PreTrainedModel,
        *,
        objective: ObjectiveSettings = GRPO,
        reference: PreTrainedModel | None = None,
        rehearsal_rows: int = 0,
        shared_prompts: Sharing = "auto",
    ) -> None:
        self.world, self.model, self.settings = world, model, objective
        self.objective = make_objective(objective)
        shape = world.shape
        self.train = TrainingSettings(
            problems_per_step=shape.prompts,
            samples_per_problem=shape.samples,
            minibatches=1,
            learning_rate=1e-6,
            betas=(0.9, 0.999),
            microbatch_tokens=microbatch_tokens(world),
        )
        self.problems = [
            Problem(problem_id=str(i), prompt=prompt)
            for i, prompt in enumerate(make_prompts(world, 4 * shape.prompts))
        ]
        self.draw = make_draw(world, model)
        self.forward = make_forward(world, model, shared_prompts=shared_prompts)
        wide = world.dtype == "float32"
        self.scorers = Scorers(
            old=None if wide else model, reference=reference, first_of=0 if wide else 1
        )
        self.optimizer = make_optimizer(model, self.train)
        self.position, self.steps = Position(), 0
        self.lengths: list[int] = []
        self.prompts: list[tuple[int, ...]] = []
        self.rehearsal = self._stored(rehearsal_rows)

    def step(self) -> StepTime:
        """Sample, grade, compare within groups, update: one step of the loop."""
        synchronize()
        started = clock()
        rollout = self._roll_out()
        synchronize()
        sampled = clock()
        self.learn(self._minibatch(rollout))
        synchronize()
        ended = clock()
        self.lengths += [
            len(graded.completion.token_ids) for g in rollout.groups for graded in g.completions
        ]
        self.prompts = [group.prompt_ids for group in rollout.groups]
        return StepTime(step=ended - started, update=ended - sampled)

    def next_minibatch(self) -> Minibatch:
        """A new rollout as one mini-batch."""
        return self._minibatch(self._roll_out())

    def learn(self, minibatch: Minibatch) -> None:
        """One optimizer step."""
        update(
            minibatch,
            self.forward,
            self.optimizer,
            objective=self.objective,
            max_grad_norm=self.train.max_grad_norm,
            on_policy=self.scorers.first_of > 0,
        )

    def gradients(self, groups: Sequence[Sequence[PolicyRow]]) -> list[torch.Tensor]:
        """The clipped gradient that an update on ``groups`` hands to the optimizer."""
        found: list[torch.Tensor] = []

        def keep(*_: Any) -> None:
            found.extend(p.grad.detach().clone() for p in self.model.parameters())

        handle = self.optimizer.register_step_pre_hook(keep)
        nothing: dict[str, tuple[RehearsalSample, ...]] = dict.fromkeys(self.objective.anchors, ())
        self.learn(Minibatch(groups=tuple(map(tuple, groups)), stored=nothing))
        handle.remove()
        return found

    def _minibatch(self, rollout: Collected) -> Minibatch:
        rows = policy_rows(
            rollout.groups,
            self.forward,
            self.scorers,
            objective=self.objective,
            settings=self.settings,
        )
        stored = dict.fromkeys(self.objective.anchors, self.rehearsal)
        (minibatch,) = split_minibatches(rows.groups, stored, 1)
        return minibatch

    def _roll_out(self) -> Collected:
        self.steps += 1
        rollout = collect(
            self.problems,
            self.draw,
            self.position,
            step=self.steps,
            seed=0,
            train=self.train,
            objective=self.settings,
        )
        self.position = rollout.position
        return rollout

    def _stored(self, count: int) -> list[RehearsalSample]:
        """Answers of the model to prompts of their own, as pre-sampling would keep them."""
        if not count:
            return []
        prompts = make_prompts(self.world, count, seed=1)
        problems = [Problem(problem_id=f"stored {i}", prompt=p) for i, p in enumerate(prompts)]
        rollout = self.draw(problems, samples=1, seed=1)
        completions = [group[0].completion.token_ids for group in rollout.groups]
        return [
            RehearsalSample(
                problem_id=problem.problem_id,
                sample_index=0,
                prompt_ids=prompt,
                completion_ids=completion,
                ref_logprobs=logprobs,
                correct=8,
            )
            for problem, prompt, completion, logprobs in zip(
                problems,
                rollout.prompts,
                completions,
                self.forward.logprobs(self.model, rollout.prompts, completions),
                strict=True,
            )
        ]


def microbatch_tokens(world: World) -> int:
    """The peer's micro-batch in tokens, sixteen full rows, for both sides alike."""
    return 16 * (world.shape.prompt + world.shape.completion)


def make_draw(world: World, model: PreTrainedModel) -> GradedSampler:
    """Sampling and grading for ``model``."""
    tokenizer = build_tokenizer(world.size)
    encode: Callable[[Problem], tuple[int, ...]] = lambda problem: tuple(  # noqa: E731
        tokenizer.encode(str(problem.prompt))
    )
    return GradedSampler(
        sampler=GradesAll(TorchSampler(model, tokenizer, dtype=world.dtype)),
        verifier=EvenWords(),
        encode=encode,
        parameters=SamplingParameters(
            max_tokens=world.shape.completion, stop_token_ids=world.stop_tokens
        ),
    )


def make_forward(
    world: World, model: PreTrainedModel, *, shared_prompts: Sharing = "auto"
) -> TrainingForward:
    """How the update scores its rows."""
    return TrainingForward(
        model=model,
        pad_id=PAD,
        temperature=1.0,
        dtype=world.dtype,
        token_budget=microbatch_tokens(world),
        max_tokens=world.shape.completion,
        sharing=shared_prompts,
    )


def prepare(side: str, case: str, run: Run) -> Callable[[], object]:
    """For a measurement of memory: two steps, the second one beside the optimizer's state."""
    del side
    world = run.world(FULL_STEP[case])
    ours = Ours(world, build_model(world))
    return lambda: (ours.step(), ours.step())
