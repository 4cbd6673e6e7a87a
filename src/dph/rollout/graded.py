"""Sampling and grading in one call: what pre-sampling, training and evaluation share."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.rollout.background_grading import BackgroundGrading
from dph.rollout.base import Sampler, SampleRequest, SamplingParameters
from dph.rollout.crashes import CrashCount
from dph.verifiers.base import Verifier

CUT_OFF = Verdict(outcome=Outcome.CUT_OFF, reward=0.0, reason="cut off at max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Graded completions of some problems, group by group, and where the time went.

    ``grading_seconds`` is what grading added: the time from the end of sampling to the last
    verdict. What was graded while others were still being drawn costs nothing here.
    """

    problems: tuple[Problem, ...]
    prompts: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[GradedCompletion, ...], ...]
    sampling_seconds: float
    grading_seconds: float


def _no_style(_: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedSampler:
    """A sampler with the verifier, the prompt encoding and the style classifier of a task.

    A completion that ``max_tokens`` cut off is not an answer: it gets CUT_OFF and reward 0
    without being graded, so that a policy must learn to stop.

    ``crash_limit`` is the share of the graded answers of a call on which the verifier may crash;
    ``counted_together`` makes it the share of several calls.
    """

    sampler: Sampler
    verifier: Verifier
    encode: Callable[[Problem], tuple[int, ...]]
    parameters: SamplingParameters
    style: Callable[[str], str | None] | None = None
    crash_limit: float = 1.0
    crashes: CrashCount | None = None

    def counted_together(self) -> "GradedSampler":
        """The same, with a count of crashes that goes on from call to call: those of one step."""
        return replace(self, crashes=CrashCount(self.verifier.name, self.crash_limit))

    def __call__(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        first_index: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ) -> Rollout:
        """Draw and grade ``samples`` completions of every problem.

        Raises:
            VerifierError: the verifier broke, or crashed on more than ``crash_limit`` of them.
        """
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
        with BackgroundGrading(self.verifier.grade) as grading:

            def submit(position: int, completion: Completion) -> None:
                if completion.finished:
                    key = (position, completion.sample_index)
                    grading.submit(key, problems[position], completion.text)

            drawn = self._sample(requests, submit, seed=seed, on_progress=on_progress)
            sampled = time.perf_counter()
            verdicts = grading.verdicts()
        style = self._style_of_text()
        groups = tuple(
            tuple(
                GradedCompletion(
                    completion=completion,
                    verdict=verdicts.get((i, completion.sample_index), CUT_OFF),
                    style=style(completion.text),
                )
                for completion in group
            )
            for i, group in enumerate(drawn)
        )
        (self.crashes or CrashCount(self.verifier.name, self.crash_limit)).add(groups)
        return Rollout(
            problems=tuple(problems),
            prompts=prompts,
            groups=groups,
            sampling_seconds=sampled - started,
            grading_seconds=time.perf_counter() - sampled,
        )

    def _sample(
        self,
        requests: Sequence[SampleRequest],
        submit: Callable[[int, Completion], None],
        *,
        seed: int,
        on_progress: Callable[[int], None] | None,
    ) -> list[list[Completion]]:
        """Draw; every completion goes to ``submit`` once, as soon as the sampler hands it over."""
        handed_over: set[tuple[int, int]] = set()

        def hand_over(position: int, completion: Completion) -> None:
            handed_over.add((position, completion.sample_index))
            submit(position, completion)

        drawn = self.sampler.sample(
            requests, self.parameters, seed=seed, on_progress=on_progress, on_completion=hand_over
        )
        # An answer must not count as cut off because a sampler of someone's own never told of it.
        for position, group in enumerate(drawn):
            for completion in group:
                if (position, completion.sample_index) not in handed_over:
                    submit(position, completion)
        return drawn

    def _style_of_text(self) -> Callable[[str], str | None]:
        """The style of a text, found once however many answers have that text."""
        return cache(self.style or _no_style)
