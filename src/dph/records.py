"""The nouns: immutable records that flow between the stages. No logic, no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """Conclusion of a verifier. Compare members; never test truthiness."""

    CORRECT = "CORRECT"
    WRONG = "WRONG"
    NO_ANSWER = "NO_ANSWER"
    """Nothing in the response can be taken as an answer."""
    INVALID = "INVALID"
    """There is an answer, but it cannot be evaluated (SQL that does not run, say)."""
    TIMED_OUT = "TIMED_OUT"
    OVER_LIMIT = "OVER_LIMIT"
    """The answer asked for more rows, bytes or memory than is allowed."""
    CUT_OFF = "CUT_OFF"
    """The answer was cut off at max_tokens; see OVER_LIMIT for what it asked of the grader."""
    BAD_GOLD = "BAD_GOLD"
    """The gold answer cannot be graded against; says nothing about the response."""
    CRASHED = "CRASHED"
    """The worker that evaluated the answer died, or the user's own verifier raised."""


UNGRADED = frozenset({Outcome.BAD_GOLD, Outcome.CRASHED})
"""Outcomes that say nothing about the response: it was not graded, so its reward means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An outcome, a reward in [0, 1] and the reason: a line, or the end of a traceback.

    Raises:
        TypeError: ``outcome`` is not a member of Outcome, not even as text such as "CORRECT",
            or ``reward`` is no number.
        ValueError: ``reward`` lies outside [0, 1].
    """

    outcome: Outcome
    reward: float
    reason: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.outcome, Outcome):
            raise TypeError(
                f"a verdict's outcome is a member of Outcome ({', '.join(Outcome)}), "
                f"such as Outcome.CORRECT; got {self.outcome!r:.80} ({type(self.outcome).__name__})"
            )
        if isinstance(self.reward, str) or self.reward is None:
            raise TypeError(f"a reward is a number in [0, 1], got {self.reward!r:.80}")
        if not 0.0 <= self.reward <= 1.0:
            raise ValueError(f"a reward lies in [0, 1], got {self.reward}")


@dataclass(frozen=True, slots=True)
class TimedVerdict:
    """A verdict and the seconds that it took."""

    verdict: Verdict
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One verifiable question.

    ``answer`` holds every other field of the data row (``answer``, ``gold_sql``,
    ``database`` ...): what the verifier needs and nothing else reads. ``prompt`` is the
    text the model sees, or a list of chat messages ``{"role": ..., "content": ...}``.

    Raises:
        TypeError: ``answer`` is not a mapping.
    """

    problem_id: str
    prompt: str | tuple[Mapping[str, str], ...]
    answer: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.answer, Mapping):
            raise TypeError(
                f"the answer of problem {self.problem_id!r} is a mapping of the fields that its "
                f"verifier reads, such as {{'answer': '42'}}; got {self.answer!r:.80} "
                f"({type(self.answer).__name__})"
            )


@dataclass(frozen=True, slots=True)
class Turn:
    """Text of a trajectory: of the policy (``by`` is ''), or the result of the tool ``by``."""

    by: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled answer.

    ``token_ids`` include the stop token when there is one; ``logprobs`` (nats) belong to
    them one by one and are those of the full vocabulary at the sampling temperature, also
    under top-p. ``finished`` is false when ``max_tokens`` cut the answer off. ``text`` is
    the answer without special tokens.

    ``written`` is None for a text of one turn. In a trajectory it says of every token whether the
    policy wrote it; the others are results of tools and have no log-probs. A trajectory also has
    the tokens of its own prompt, with what ``reset`` said; its text is that of all turns
    (``dph.tasks.environments.turns_text``), and ``end`` is the answer that it came to: its last
    words, or the argument of the tool that submits. A trajectory that was cut off, hung or crashed
    has no ``end``.
    """

    problem_id: str
    sample_index: int
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: bool
    text: str
    written: tuple[bool, ...] | None = None
    prompt_ids: tuple[int, ...] | None = None
    end: str | None = None

    @property
    def answer(self) -> str | None:
        """The answer that can be graded or compared; None where there is none."""
        if self.written is not None:
            return self.end
        return self.text if self.finished else None

    @property
    def length(self) -> int:
        """Number of tokens that the policy wrote."""
        return len(self.token_ids) if self.written is None else sum(self.written)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedCompletion:
    """A completion, what its verifier concluded, and the style it was written in."""

    completion: Completion
    verdict: Verdict
    style: str | None = None

    def verdict_columns(self) -> dict[str, str | float | None]:
        """Outcome, reward, reason and style, as every table of answers has them."""
        verdict = self.verdict
        found = {"outcome": verdict.outcome.value, "reward": verdict.reward}
        return {**found, "reason": verdict.reason, "style": self.style}
