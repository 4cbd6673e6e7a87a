"""Our side: a training step and a rollout of this package on a device that counts."""

import functools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from counting_device import CountingDevice, Counts
from counting_device.counts import PASSED_OVER
from dph.model.forward import sharing
from dph.model.forward.over_vocabulary import plain_head
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.graded import Rollout
from dph.model.sampler.torch.sampler import TorchSampler
from dph.recipe import Recipe
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train import loop, updating
from dph.runs.train.checkpoints import Progress
from dph.runs.train.loop import Actors, Learner
from dph.runs.train.optimizer import make_optimizer

PASSED_OVER.add(__file__)

# A rollout without a sampler: prompts and completions of random tokens.


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomAnswers:
    """Draws answers of random tokens, which need no model, and rewards every second one.

    Attributes:
        vocabulary: of the tokens.
        prompt: tokens of each prompt.
        lengths: shortest and longest completion, both included.
    """

    vocabulary: int
    prompt: int
    lengths: tuple[int, int]

    def __call__(self, problems: Sequence[Problem], *, samples: int, seed: int) -> Rollout:
        """Answers of each problem."""
        drawn = random.Random(seed)

        def words(count: int) -> tuple[int, ...]:
            return tuple(drawn.randrange(2, self.vocabulary) for _ in range(count))

        def answer(problem: Problem, index: int) -> GradedCompletion:
            tokens = words(drawn.randint(*self.lengths))
            return GradedCompletion(
                completion=Completion(
                    problem_id=problem.problem_id,
                    sample_index=index,
                    token_ids=tokens,
                    logprobs=(-1.0,) * len(tokens),
                    finished=True,
                    text="",
                ),
                verdict=Verdict(outcome=Outcome.CORRECT, reward=float(index % 2)),
            )

        return Rollout(
            problems=tuple(problems),
            prompts=tuple(words(self.prompt) for _ in problems),
            groups=tuple(tuple(answer(p, i) for i in range(samples)) for p in problems),
            sampling_seconds=0.0,
            grading_seconds=0.0,
        )


# A step of the loop.

PARTS = ("old log-probs", "forward + loss", "backward", "clip + AdamW")


def make_learner(
    recipe: Recipe,
    policy: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    draw: RandomAnswers,
    *,
    reference: PreTrainedModel | None = None,
    stored: Mapping[str, Sequence[RehearsalSample]] | None = None,
) -> Learner:
    """Everything that takes part in a step, as `dph.runs.train.loop` makes it.

    Its first step is like all others: the heads are known, and the optimizer has its states.
    """
    for model in (policy, reference):
        if model is not None:
            plain_head(model)
    actors: Any = Actors(policy=policy, tokenizer=tokenizer, reference=reference, draw=draw)
    optimizer = make_optimizer(policy, recipe.train, seed=recipe.seed)
    for parameter in policy.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    optimizer.step()
    optimizer.zero_grad()
    problems = [Problem(problem_id=str(i), prompt="") for i in range(recipe.labelled_per_step)]
    return loop.make_learner(recipe, actors, problems, stored or {}, optimizer=optimizer)


@dataclass(frozen=True, slots=True)
class StepCounts:
    """Counts of everything between the drawn answers and the end of the optimizer's step."""

    parts: Mapping[str, Counts]
    microbatches: int

    @property
    def launches(self) -> int:
        """Of all parts."""
        return sum(part.launches for part in self.parts.values())

    @property
    def waits(self) -> int:
        """Of all parts."""
        return sum(part.waits for part in self.parts.values())


def count_step(device: CountingDevice, learner: Learner) -> StepCounts:
    """Take the second step of a run, as `dph.runs.train.loop.step` does, and count it.

    That the model can share prompts is taken for granted, which a run finds out once.
    """
    found: list[int] = []
    plan = updating.plan_microbatches

    def planned(*args: Any, **kwargs: Any) -> Any:
        batches = plan(*args, **kwargs)
        found.append(len(batches))
        return batches

    old, forward, backward, last = PARTS
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(updating, "plan_microbatches", planned))
        can = mock.Mock(return_value=sharing.Support(None, math.inf))
        stack.enter_context(mock.patch.object(sharing, "packing_support", can))
        for where, function, region in (
            (loop, "policy_rows", old),
            (loop, "update", forward),
            (torch.autograd, "backward", backward),
            (torch.nn.utils, "clip_grad_norm_", last),
            (learner.optimizer, "step", last),
        ):
            counted = _counted(device, getattr(where, function), region)
            stack.enter_context(mock.patch.object(where, function, counted))
        loop.step(Progress(step=1), learner)
    return StepCounts({part: device.counts[part] for part in PARTS}, found[-1])


def _counted(device: CountingDevice, inner: Callable[..., Any], region: str) -> Callable[..., Any]:
    @functools.wraps(inner)  # schedules look for their mark on an optimizer's step
    def run(*args: Any, **kwargs: Any) -> Any:
        with device.counting(region):
            return inner(*args, **kwargs)

    return run


# A rollout of the sampler.


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Counts of a decoded token, from the difference of two rollouts, and of the prefill.

    The prefill is a rollout of one token: the prompts' forward, and the choice of that token.
    """

    launches: float
    kernels: float
    waits: float
    prefill: Counts
    by_file: Mapping[str, float]


def count_tokens(
    device: CountingDevice,
    sampler: TorchSampler,
    requests: Sequence[SampleRequest],
    *,
    lengths: tuple[int, int],
    stops: tuple[int, ...] = (1,),
) -> TokenCounts:
    """Draw ``requests`` with two limits of tokens and compare.

    Both limits lie between the same two looks at the rows, so the looks are in neither.
    """

    def rollout(tokens: int) -> Counts:
        parameters = SamplingParameters(max_tokens=tokens, stop_token_ids=stops)
        with device.counting(f"rollout of {tokens}") as counts:
            sampler.sample(requests, parameters, seed=0)
        return counts

    prefill = rollout(1)
    short, long = (rollout(tokens) for tokens in lengths)
    steps = lengths[1] - lengths[0]
    kernels = [c.launches + c.graph_kernels - c.by_operation()["graph"] for c in (short, long)]
    files = [c.by_file() + c.by_file("inside") for c in (short, long)]
    return TokenCounts(
        launches=(long.launches - short.launches) / steps,
        kernels=(kernels[1] - kernels[0]) / steps,
        waits=(long.waits - short.waits) / steps,
        prefill=prefill,
        by_file={f: (files[1][f] - files[0][f]) / steps for f in files[1]},
    )
