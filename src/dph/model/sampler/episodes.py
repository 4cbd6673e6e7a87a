"""Trajectories in an environment: turns of the policy, results of tools, and a verdict at the end.

All rows that still act draw their next turn together, each from its own history; rows that share a
beginning share its prefill, turn after turn. Tools run in threads while other rows are drawn.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace

from dph._base.randomness import derived_seed
from dph.errors import DataError, SettingsError, VerifierError
from dph.model.prompts import TurnEncoder
from dph.model.sampler.base import Sampler, SampleRequest, SamplingParameters
from dph.model.sampler.graded import (
    CUT_OFF,
    CrashCount,
    Drawn,
    GradedSampler,
    Key,
    Rollout,
    Ungraded,
)
from dph.records import Completion, GradedCompletion, Outcome, Problem, Turn, Verdict
from dph.tasks.environments import Environment, EnvironmentVerifier, Episode, ToolResult, turns_text
from dph.tasks.verifiers.base import Verifier

_NOT_CRASHED = Verdict(outcome=Outcome.WRONG, reward=0.0)
"""A trajectory that reached an answer; for the count of crashes only."""


@dataclass(slots=True)
class _Row:
    """A trajectory while it grows."""

    problem: Problem
    place: int
    """Of the problem among all."""
    index: int
    episode: Episode
    prompt: tuple[int, ...]
    token_ids: list[int] = field(default_factory=list)
    written: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    """Of the last turn; none after the final one."""
    verdict: Verdict | None = None
    end: str | None = None
    """The answer, once the policy gave one."""

    @property
    def began(self) -> bool:
        """True if ``reset`` succeeded."""
        return bool(self.token_ids) or self.episode.ending is None

    @property
    def known(self) -> Verdict | None:
        """The verdict, or that of an early end; None if a verifier must grade it."""
        return self.verdict or self.episode.ending

    @property
    def style(self) -> str | None:
        """The tools that it called, in order; None if it called none."""
        return " ".join(tool or "error" for tool in self.episode.order) or None

    def completion(self) -> Completion:
        """The whole trajectory; its text has the turns and the results in their order."""
        said = self.episode.said
        return Completion(
            problem_id=self.problem.problem_id,
            sample_index=self.index,
            token_ids=tuple(self.token_ids),
            logprobs=tuple(self.logprobs),
            finished=self.known is None or self.known.outcome is not Outcome.CUT_OFF,
            text=turns_text(([Turn("reset", said)] if said else []) + self.turns),
            written=tuple(self.written),
            prompt_ids=self.prompt,
            end=self.end,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSampler:
    """Draws trajectories and grades them, as ``GradedSampler`` does with answers.

    A trajectory is one ``Completion``: its tokens are those of the policy's turns and of the
    results between them, ``written`` tells them apart, and only the policy's have log-probs. Its
    style is the tools it called, in order.

    Attributes:
        sampler: draws one turn of many rows.
        environment: the class, its limits, and how calls are written.
        encoder: tokens of prompts and of results.
        parameters: of each turn; ``max_tokens`` bounds one turn.
        tokens: tokens of a trajectory after its prompt, results included. A row without room for
            ``max_tokens`` more is CUT_OFF.
        context: tokens that the model takes, prompt included; None for no limit.
        verifier: grades the answer if the class has no ``get_reward``.
        threads: tools that run at a time.
        crash_limit: as of ``GradedSampler``.
        at_once: trajectories whose processes live at a time.
        crashes: as of ``GradedSampler``.

    Raises:
        SettingsError: neither or both of verifier and ``get_reward`` would grade a trajectory, or a
            limit is too small.
    """

    sampler: Sampler
    environment: Environment
    encoder: TurnEncoder
    parameters: SamplingParameters
    tokens: int
    context: int | None = None
    verifier: Verifier | None = None
    threads: int = 8
    crash_limit: float = 1.0
    at_once: int = 128
    crashes: CrashCount | None = None

    def __post_init__(self) -> None:
        if self.tokens < self.parameters.max_tokens:
            raise SettingsError(
                f"a trajectory of {self.tokens} tokens has no room for a turn of max_tokens = "
                f"{self.parameters.max_tokens}"
            )
        EnvironmentVerifier(self.environment, self.verifier)
        if min(self.threads, self.at_once) < 1:
            raise SettingsError(
                f"threads and at_once must be at least 1, got {self.threads} and {self.at_once}"
            )

    @property
    def graded_by(self) -> EnvironmentVerifier:
        """The environment with its verifier, whose identity every artefact names."""
        return EnvironmentVerifier(self.environment, self.verifier)

    @property
    def limits(self) -> dict[str, object]:
        """As of ``GradedSampler``; the environment's own are in ``graded_by``."""
        return {**asdict(self.parameters), "tokens": self.tokens}

    @property
    def style(self) -> None:
        """None: a trajectory's style is not read from a text."""

    def encode(self, problem: Problem) -> tuple[int, ...]:
        """Tokens of a problem's prompt, without words of ``reset``."""
        return self.encoder.prompt(problem)

    def counted_together(self) -> "EpisodeSampler":
        """As of ``GradedSampler``."""
        return replace(self, crashes=self._crash_count())

    def _crash_count(self) -> CrashCount:
        return CrashCount(self.environment.name, self.crash_limit, kind="environment")

    def __call__(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> Rollout:
        """Draw ``samples`` trajectories of every problem.

        The numbers of a turn come from (seed, problem, sample, turn); a trajectory of one turn is
        the answer that the sampler by itself would draw, to the bit.

        Raises:
            DataError: a problem's columns are not JSON.
            VerifierError: members of a group do not begin alike, no process can be started, or too
                many trajectories crashed.
        """
        return self.begin(problems, samples=samples, seed=seed, on_progress=on_progress).rollout()

    def begin(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> Drawn:
        """Draw and grade, as ``GradedSampler.begin`` does; all is done when this returns."""
        started = time.perf_counter()
        answers = self._ungraded(problems, samples, seed, on_progress)
        drawn = Drawn(
            problems,
            answers,
            sampling_seconds=time.perf_counter() - started,
            verdicts=lambda: self._verdicts(problems, answers),
            crashes=self.crashes or self._crash_count(),
        )
        drawn.rollout()
        return drawn

    def ungraded(self, problems: Sequence[Problem], *, samples: int, seed: int) -> Ungraded:
        """Draw as when it is called, and leave the answers for others to compare."""
        drawn = self._ungraded(problems, samples, seed, None)
        (self.crashes or self._crash_count()).add(
            GradedCompletion(completion=each, verdict=verdict or _NOT_CRASHED)
            for group, verdicts in zip(drawn.groups, drawn.verdicts, strict=True)
            for each, verdict in zip(group, verdicts, strict=True)
        )
        return drawn

    def _verdicts(self, problems: Sequence[Problem], answers: Ungraded) -> dict[Key, Verdict]:
        """The verifier's verdicts on the trajectories that have none."""
        left = {
            (place, one.sample_index): one.answer
            for place, (group, known) in enumerate(
                zip(answers.groups, answers.verdicts, strict=True)
            )
            for one, verdict in zip(group, known, strict=True)
            if verdict is None
        }
        if not left or self.verifier is None:
            return {}
        asked = [problems[place] for place, _ in left]
        found = self.verifier.grade(asked, [answer or "" for answer in left.values()])
        return dict(zip(left, found, strict=True))

    def _ungraded(
        self,
        problems: Sequence[Problem],
        samples: int,
        seed: int,
        on_progress: Callable[[int], None] | None,
    ) -> Ungraded:
        places = [(place, index) for place in range(len(problems)) for index in range(samples)]
        rows: list[_Row] = []  # all trajectories, ``samples`` of each problem in order
        for begin in range(0, len(places), self.at_once):
            some = places[begin : begin + self.at_once]
            with self._begun(problems, some, seed) as (threads, fresh):
                _require_alike([*rows, *fresh])
                self._act(fresh, seed, threads)
            rows += fresh
            if on_progress:
                on_progress(len(fresh))
        groups = [rows[samples * at : samples * (at + 1)] for at in range(len(problems))]
        return Ungraded(
            # The prompt of a member whose ``reset`` did not fail, if there is one.
            prompts=tuple(
                next((row.prompt for row in group if row.began), group[0].prompt)
                for group in groups
            ),
            groups=tuple(tuple(row.completion() for row in group) for group in groups),
            verdicts=tuple(tuple(row.known for row in group) for group in groups),
            styles=tuple(tuple(row.style for row in group) for group in groups),
        )

    @contextmanager
    def _begun(
        self, problems: Sequence[Problem], places: Sequence[tuple[int, int]], seed: int
    ) -> Iterator[tuple[ThreadPoolExecutor, list[_Row]]]:
        """Rows whose instances were reset; their processes end with the context."""

        def begin(place: int, index: int) -> Episode:
            return self.environment.begin(problems[place], seed=seed, member=index)

        with ExitStack() as stack, ThreadPoolExecutor(self.threads) as threads:
            futures = [threads.submit(begin, *each) for each in places]
            try:
                episodes = [stack.enter_context(future.result()) for future in futures]
            except BaseException:
                for future in futures:
                    if not future.cancel() and not future.exception():
                        future.result().close()
                raise
            rows = []
            for (place, index), episode in zip(places, episodes, strict=True):
                prompt = self.encoder.prompt(problems[place], episode.said)
                if self.context and len(prompt) + self.parameters.max_tokens > self.context:
                    episode.cut_off("the prompt leaves no room for a turn")
                rows.append(_Row(problems[place], place, index, episode, prompt))
            yield threads, rows

    def _act(self, rows: list[_Row], seed: int, threads: ThreadPoolExecutor) -> None:
        """Turn after turn, until every row has ended."""
        acting = [row for row in rows if row.episode.ending is None]
        turn = 0
        while acting:
            self._turn(acting, derived_seed(seed, "turn", turn) if turn else seed, threads)
            for row in acting:
                self._continue(row)
            acting = [row for row in acting if row.results]
            turn += 1

    def _turn(self, rows: list[_Row], seed: int, threads: ThreadPoolExecutor) -> None:
        requests = [
            SampleRequest(
                problem_id=row.problem.problem_id,
                prompt_ids=(*row.prompt, *row.token_ids),
                samples=1,
                first_index=row.index,
            )
            for row in rows
        ]
        running: dict[int, Future[None]] = {}

        def begin(position: int, completion: Completion) -> None:
            running[position] = threads.submit(self._step, rows[position], completion)

        drawn = self.sampler.sample(requests, self.parameters, seed=seed, on_completion=begin)
        for position, (completion,) in enumerate(drawn):
            if position not in running:  # a sampler that tells of none as it finishes
                begin(position, completion)
        for future in running.values():
            future.result()

    def _step(self, row: _Row, completion: Completion) -> None:
        row.token_ids += completion.token_ids
        row.written += [True] * len(completion.token_ids)
        row.logprobs += completion.logprobs
        row.turns.append(Turn("", completion.text))
        if completion.finished:
            row.results = row.episode.step(completion.text)
        else:
            row.results = []
            row.episode.cut_off(CUT_OFF.reason)
        if row.results:
            return
        if row.episode.ending is None:
            row.end = row.episode.answer
        if self.verifier is None:
            row.verdict = row.episode.verdict()
        row.episode.close()  # its process is not needed any more

    def _continue(self, row: _Row) -> None:
        """Let a row read its results, if there is room for them and another turn."""
        if not row.results:
            return
        room = self.tokens if self.context is None else self.context - len(row.prompt)
        ids = self.encoder.fitting_results(
            row.episode,
            row.results,
            written=row.token_ids,
            turn=self.parameters.max_tokens,
            room=min(self.tokens, room),
        )
        if ids is None:
            row.results = []
            return
        row.token_ids += ids
        row.written += [False] * len(ids)
        row.turns += [Turn(result.tool or "error", result.text) for result in row.results]


AnswerSampler = GradedSampler | EpisodeSampler
"""Draws and grades answers to problems, in one turn or in several."""

ROUTE = "environment"
"""The column that names a problem's environment; ``reset`` does not get it."""


@dataclass(frozen=True, slots=True)
class RoutedSampler:
    """Draws each problem's trajectories in the environment that its column ``environment`` names.

    Only the tools of that environment are shown to the policy, as in TRL's mixed runs.

    Attributes:
        draws: of each environment, by its name.
    """

    draws: Mapping[str, EpisodeSampler]

    def __call__(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> Rollout:
        """Draw ``samples`` trajectories of every problem, in the order of the problems.

        Raises:
            DataError: a problem names no environment, or one that is not among ``draws``; and as
                ``EpisodeSampler``.
        """
        places: dict[str, list[int]] = {name: [] for name in self.draws}
        for place, problem in enumerate(problems):
            name = problem.answer.get(ROUTE)
            if name not in places:
                raise DataError(
                    f"problem {problem.problem_id!r}: the column {ROUTE!r} is {name!r:.80}; "
                    f"there are the environments {', '.join(self.draws)}"
                )
            places[name].append(place)
        prompts: dict[int, tuple[int, ...]] = {}
        groups: dict[int, tuple[GradedCompletion, ...]] = {}
        sampling = grading = 0.0
        for name, some in places.items():
            asked = [
                replace(p, answer={key: value for key, value in p.answer.items() if key != ROUTE})
                for p in (problems[place] for place in some)
            ]
            drawn = self.draws[name](asked, samples=samples, seed=seed, on_progress=on_progress)
            prompts |= zip(some, drawn.prompts, strict=True)
            groups |= zip(some, drawn.groups, strict=True)
            sampling += drawn.sampling_seconds
            grading += drawn.grading_seconds
        return Rollout(
            problems=tuple(problems),
            prompts=tuple(prompts[place] for place in range(len(problems))),
            groups=tuple(groups[place] for place in range(len(problems))),
            sampling_seconds=sampling,
            grading_seconds=grading,
        )


def _require_alike(rows: Sequence[_Row]) -> None:
    """Refuse a group whose members were given different prompts by ``reset``."""
    said: dict[int, _Row] = {}
    for row in (row for row in rows if row.began):
        first = said.setdefault(row.place, row)
        if row.prompt != first.prompt:
            raise VerifierError(
                f"members of the group of problem {row.problem.problem_id!r} do not "
                f"begin alike: reset said {first.episode.said!r:.80} and "
                f"{row.episode.said!r:.80}; it may draw numbers from 'random' or numpy alone, "
                "which are seeded for the group"
            )
