"""Sampling and grading in one call: what pre-sampling, training and evaluation share."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain

from dph._base.closing import Closing
from dph.errors import VerifierError
from dph.model.sampler.base import Sampler, SampleRequest, SamplingParameters
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.tasks.agreement import warn_of_contradictions
from dph.tasks.verifiers.base import Verifier

_REASON_CHARACTERS = 300


class CrashCount:
    """Counts answers over which a verifier (or environment) crashed; refuses more than a share.

    ``limit`` is the largest share, in [0, 1], of the graded answers that may have crashed. Answers
    that were cut off are not counted: no verifier has seen them. Identical answers with different
    verdicts are reported, once for each verifier.
    """

    def __init__(self, name: str, limit: float, *, kind: str = "verifier") -> None:
        self._name, self._limit, self._kind = name, limit, kind
        self._graded = self._crashed = 0
        self._example = ""

    def add(self, answers: Iterable[GradedCompletion]) -> None:
        """Count these answers too."""
        for graded in (answers := tuple(answers)):
            outcome = graded.verdict.outcome
            self._graded += outcome is not Outcome.CUT_OFF
            if outcome is Outcome.CRASHED:
                self._crashed += 1
                reason = " ".join(graded.verdict.reason.split())
                if len(reason) > _REASON_CHARACTERS:  # a traceback ends with what was raised
                    reason = f"... {reason[-_REASON_CHARACTERS:]}"
                said = f"problem {graded.completion.problem_id!r}: {reason}"
                self._example = self._example or said
        if self._crashed > self._limit * self._graded:
            raise VerifierError(
                f"the {self._kind} {self._name!r} crashed on {self._crashed} of {self._graded} "
                f"graded answers, more than data.verifier_crash_limit = {self._limit:g} allows; "
                f"for example on {self._example}; finished work is kept: fix the {self._kind} and "
                f"run the same command again (with --accept-verifier if its file changed)"
            )
        if self._kind == "verifier":
            warn_of_contradictions(
                self._name,
                ((a.completion.problem_id, a.completion.text, a.verdict.outcome) for a in answers),
            )


Grade = Callable[[Sequence[Problem], Sequence[str]], list[Verdict]]
Key = tuple[int, int]

LARGEST_CALL = 64
"""Answers of one call in the thread, for which an interrupted run may have to wait."""


_Answer = tuple[Key, Problem, str]


class BackgroundGrading(Closing):
    """Grades answers in the order in which they are submitted, one call at a time.

    What has gathered while a call was running is graded by the next one. ``verdicts`` grades what
    is left in the calling thread. Leaving the context always ends the thread.
    """

    def __init__(self, grade: Grade) -> None:
        self._grade = grade
        self._verdicts: dict[Key, Verdict] = {}
        self._gathered: deque[_Answer] = deque()
        self._ended = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dph-grading")
        self._working: Future[None] | None = None

    def submit(self, key: Key, problem: Problem, response: str) -> None:
        """Queue an answer; raises what an earlier call raised."""
        self._gathered.append((key, problem, response))
        if self._working is None or self._working.done():
            if self._working is not None:
                self._working.result()
            self._working = self._thread.submit(self._work)

    def verdicts(self) -> dict[Key, Verdict]:
        """All verdicts; waits for the call in flight and grades the rest."""
        self.close()
        if self._working is not None:
            self._working.result()
        if self._gathered:
            self._store([*self._gathered])
            self._gathered.clear()
        return self._verdicts

    def _work(self) -> None:
        while self._gathered and not self._ended:
            count = min(len(self._gathered), LARGEST_CALL)
            self._store([self._gathered.popleft() for _ in range(count)])

    def _store(self, answers: Sequence[_Answer]) -> None:
        found = self._grade([asked for _, asked, _ in answers], [text for _, _, text in answers])
        self._verdicts |= zip((key for key, _, _ in answers), found, strict=True)

    def close(self) -> None:
        """End the thread after the call in flight; what is left is not graded."""
        self._ended = True
        self._thread.shutdown()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ungraded:
    """Answers in groups, which others compare or grade.

    Attributes:
        prompts: the tokens of each prompt.
        groups: the answers to each.
        verdicts: those that need no verifier: CUT_OFF, and of a trajectory how it ended early and
            the verdict of ``get_reward``.
        styles: as of ``GradedCompletion``.
    """

    prompts: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[Completion, ...], ...]
    verdicts: tuple[tuple[Verdict | None, ...], ...]
    styles: tuple[tuple[str | None, ...], ...]


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

    @property
    def graded_by(self) -> Verifier:
        """The verifier, whose identity every artefact names."""
        return self.verifier

    @property
    def limits(self) -> dict[str, object]:
        """Settings that decide an answer next to the policy and the prompt, for digests."""
        return asdict(self.parameters)

    def counted_together(self) -> "GradedSampler":
        """The same, with a count of crashes kept from call to call: those of one step."""
        return replace(self, crashes=CrashCount(self.verifier.name, self.crash_limit))

    def __call__(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> Rollout:
        """Draw and grade ``samples`` completions of every problem.

        Raises:
            VerifierError: the verifier broke, or crashed on more than ``crash_limit`` of them.
        """
        with self.begin(problems, samples=samples, seed=seed, on_progress=on_progress) as drawn:
            return drawn.rollout()

    def begin(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> "Drawn":
        """Draw ``samples`` completions of every problem; grading continues when this returns."""
        started = time.perf_counter()
        grading = BackgroundGrading(self.verifier.grade)

        def submit(position: int, completion: Completion) -> None:
            if completion.finished:
                key = (position, completion.sample_index)
                grading.submit(key, problems[position], completion.text)

        try:
            answers = self.ungraded(
                problems, samples=samples, seed=seed, on_progress=on_progress, submit=submit
            )
        except BaseException:
            grading.close()
            raise
        return Drawn(
            problems,
            answers,
            sampling_seconds=time.perf_counter() - started,
            verdicts=grading.verdicts,
            crashes=self.crashes or CrashCount(self.verifier.name, self.crash_limit),
            end=grading.close,
        )

    def ungraded(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
        submit: Callable[[int, Completion], None] = lambda *_: None,
    ) -> Ungraded:
        """Draw as when it is called, and leave the answers for others to compare or to grade.

        ``submit`` gets every completion once, as soon as the sampler hands it over.
        """
        requests = [
            SampleRequest(
                problem_id=problem.problem_id, prompt_ids=self.encode(problem), samples=samples
            )
            for problem in problems
        ]
        handed_over: set[Key] = set()

        def hand_over(position: int, completion: Completion) -> None:
            handed_over.add((position, completion.sample_index))
            submit(position, completion)

        groups = self.sampler.sample(
            requests, self.parameters, seed=seed, on_progress=on_progress, on_completion=hand_over
        )
        # An answer must not count as cut off because a user-defined sampler never told of it.
        for position, group in enumerate(groups):
            for completion in group:
                if (position, completion.sample_index) not in handed_over:
                    submit(position, completion)
        style = cache(self.style or (lambda _: None))  # once a text, however many have it
        return Ungraded(
            prompts=tuple(request.prompt_ids for request in requests),
            groups=tuple(map(tuple, groups)),
            verdicts=tuple(
                tuple(None if one.finished else CUT_OFF for one in group) for group in groups
            ),
            styles=tuple(tuple(style(one.text) for one in group) for group in groups),
        )


class Drawn(Closing):
    """Answers that are drawn, while they may still be graded in the background.

    ``completions`` are those of each problem, ``prompts`` their tokens. Leaving the context ends
    the grading, whether ``rollout`` was called or not.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        answers: Ungraded,
        *,
        sampling_seconds: float,
        verdicts: Callable[[], Mapping[Key, Verdict]],
        crashes: CrashCount,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        """``verdicts`` returns the verdicts that ``answers`` lack; ``end`` ends their grading."""
        self.problems, self.prompts = tuple(problems), answers.prompts
        self.completions, self.sampling_seconds = answers.groups, sampling_seconds
        self._answers, self._verdicts = answers, verdicts
        self._crashes, self._end = crashes, end
        self._rollout: Rollout | None = None

    def rollout(self) -> Rollout:
        """The graded answers; waits for the verdicts that are still missing."""
        if self._rollout is None:
            started = time.perf_counter()
            verdicts = self._verdicts()
            answers = self._answers
            groups = tuple(
                tuple(
                    GradedCompletion(
                        completion=completion,
                        verdict=known or verdicts[place, completion.sample_index],
                        style=its_style,
                    )
                    for completion, known, its_style in zip(*group, strict=True)
                )
                for place, group in enumerate(
                    zip(answers.groups, answers.verdicts, answers.styles, strict=True)
                )
            )
            self._crashes.add(chain.from_iterable(groups))
            self._rollout = Rollout(
                problems=self.problems,
                prompts=self.prompts,
                groups=groups,
                sampling_seconds=self.sampling_seconds,
                grading_seconds=time.perf_counter() - started,
            )
        return self._rollout

    def close(self) -> None:
        """End the grading after the call in flight."""
        self._end()
