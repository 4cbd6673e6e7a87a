"""Sampling and grading in one call: what pre-sampling, training and evaluation share."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.rollout.base import Sampler, SampleRequest, SamplingParameters
from dph.verifiers.base import Verifier

CUT_OFF = Verdict(outcome=Outcome.OVER_LIMIT, reward=0.0, reason="cut off at max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Graded completions of some problems, group by group, and where the time went (seconds)."""

    problems: tuple[Problem, ...]
    prompts: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[GradedCompletion, ...], ...]
    sampling_seconds: float
    grading_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedSampler:
    """A sampler with the verifier, the prompt encoding and the style classifier of a task.

    A completion that ``max_tokens`` cut off is not an answer: it gets OVER_LIMIT and reward 0
    without being graded, so that a policy must learn to stop.
    """

    sampler: Sampler
    verifier: Verifier
    encode: Callable[[Problem], tuple[int, ...]]
    parameters: SamplingParameters
    style: Callable[[str], str | None] | None = None

    def __call__(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        first_index: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ) -> Rollout:
        """Draw and grade ``samples`` completions of every problem."""
        started = time.perf_counter()
        prompts = tuple(self.encode(problem) for problem in problems)
        requests = [
            SampleRequest(
                problem_id=problem.problem_id,
                prompt_ids=prompt,
                samples=samples,
                first_index=first_index,
            )
            for problem, prompt in zip(problems, prompts, strict=True)
        ]
        drawn = self.sampler.sample(requests, self.parameters, seed=seed, on_progress=on_progress)
        sampled = time.perf_counter()
        groups = self._grade(problems, drawn)
        return Rollout(
            problems=tuple(problems),
            prompts=prompts,
            groups=groups,
            sampling_seconds=sampled - started,
            grading_seconds=time.perf_counter() - sampled,
        )

    def _grade(
        self, problems: Sequence[Problem], drawn: Sequence[Sequence[Completion]]
    ) -> tuple[tuple[GradedCompletion, ...], ...]:
        pairs = [
            (problem, completion)
            for problem, group in zip(problems, drawn, strict=True)
            for completion in group
            if completion.finished
        ]
        verdicts = iter(self.verifier.grade([p for p, _ in pairs], [c.text for _, c in pairs]))
        return tuple(
            tuple(self._graded(c, next(verdicts) if c.finished else CUT_OFF) for c in group)
            for group in drawn
        )

    def _graded(self, completion: Completion, verdict: Verdict) -> GradedCompletion:
        style = self.style(completion.text) if self.style else None
        return GradedCompletion(completion=completion, verdict=verdict, style=style)
