"""The mathematics verifiers: ``math`` to train with, ``math_qwen`` for published scores.

Both need the extra ``dph-rl[math]`` and run in worker processes that are killed when an answer
takes too long. A problem's answer has ``answer``, the gold, in LaTeX or plain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from dph.errors import DataError, SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.verifiers.closing import Closing
from dph.verifiers.math_answer import PHRASES
from dph.verifiers.workers import Reply, ReplyKind, WorkerPool

_MEMORY_BYTES = 3_000_000_000
_GOLD_STAGE = "gold"


@dataclass(frozen=True, slots=True)
class MathPair:
    """A gold answer and a response."""

    gold: str
    response: str


@dataclass(frozen=True, slots=True)
class JudgedMath:
    """A verdict and the seconds that it took."""

    verdict: Verdict
    seconds: float


class _PooledVerifier(Closing):
    name: str
    version: str

    def __init__(
        self, *, handler: str, options: dict[str, Any], workers: int, timeout: float
    ) -> None:
        if missing := [package for package in ("sympy", "math_verify") if not find_spec(package)]:
            raise SettingsError(
                f"the {self.name} verifier needs the package {missing[0]}: "
                "pip install 'dph-rl[math]'"
            )
        self._pool = WorkerPool(
            handler=handler,
            options=options | {"memory_bytes": _MEMORY_BYTES},
            workers=workers,
            timeout=timeout,
        )

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            DataError: a problem has no ``answer``.
            VerifierError: a worker failed.
        """
        pairs = [
            MathPair(self._gold(problem), response)
            for problem, response in zip(problems, responses, strict=True)
        ]
        return [judged.verdict for judged in self.judge(pairs)]

    def judge(self, pairs: Sequence[MathPair]) -> list[JudgedMath]:
        """A verdict for each gold and response, in order.

        Raises:
            VerifierError: a worker failed; not: an answer did.
        """
        requests = [{"gold": pair.gold, "response": pair.response} for pair in pairs]
        replies = self._pool.run(requests)
        return [JudgedMath(self._verdict(reply), reply.seconds) for reply in replies]

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._pool.close()

    def _gold(self, problem: Problem) -> str:
        gold = problem.answer.get("answer")
        if gold is None:
            raise DataError(
                f"the {self.name} verifier needs 'answer' in problem {problem.problem_id!r}, "
                f"its fields are {sorted(problem.answer)}"
            )
        return str(gold)

    def _verdict(self, reply: Reply) -> Verdict:
        match reply.kind:
            case ReplyKind.OK:
                outcome, reason = Outcome(reply.value[0]), reply.value[1]
            case ReplyKind.TIMED_OUT | ReplyKind.CRASHED if reply.stage == _GOLD_STAGE:
                outcome, reason = Outcome.BAD_GOLD, f"reading the gold failed: {reply.reason}"
            case ReplyKind.TIMED_OUT:
                outcome, reason = Outcome.TIMED_OUT, reply.reason
            case ReplyKind.CRASHED:
                outcome, reason = Outcome.CRASHED, reply.reason
            case _:
                raise VerifierError(f"the {self.name} verifier failed: {reply.reason}")
        return Verdict(outcome=outcome, reward=float(outcome is Outcome.CORRECT), reason=reason)


class MathVerifier(_PooledVerifier):
    r"""Judges the last boxed answer, or what follows a final-answer phrase.

    Spellings, numbers, choices and units are compared exactly; the rest by math-verify, whose
    yes has to be borne out by the numbers. Wrong answers near the gold are wrong.

    Args:
        phrases: what announces an answer that is not boxed, upper and lower case alike; None for
            ``PHRASES``, an empty list for boxes alone.
        any_expression: without box and phrase, take the last expression of the response.
        workers: number of worker processes.
        timeout: seconds for one answer.

    Raises:
        SettingsError: math-verify is missing, a phrase is blank, or ``workers`` or ``timeout`` is
            out of range.
    """

    name = "math"
    version = "3"

    def __init__(
        self,
        *,
        phrases: Sequence[str] | None = None,
        any_expression: bool = True,
        workers: int = 1,
        timeout: float = 5.0,
    ) -> None:
        chosen = tuple(PHRASES if phrases is None else phrases)
        if blank := [phrase for phrase in chosen if not phrase.strip()]:
            raise SettingsError(f"a final-answer phrase has to be a text, got {blank[0]!r}")
        lower = [phrase.lower() for phrase in chosen]
        if chosen != PHRASES or not any_expression:
            self.version = f"{self.version} (phrases={lower}, any_expression={any_expression})"
        super().__init__(
            handler="dph.verifiers.math_grading:make_math_grader",
            options={"phrases": lower, "any_expression": any_expression},
            workers=workers,
            timeout=timeout,
        )


class MathQwenVerifier(_PooledVerifier):
    """Agrees with the Qwen2.5-Math evaluation tool, to compare scores with published ones.

    Do not train with it: it takes 100 times the right number and a hundredth of it for right,
    forgives 1e-4, drops signs of percent, units and some words, and reads ``1,2`` as 1.

    Args:
        workers: number of worker processes.
        timeout: seconds for one answer.

    Raises:
        SettingsError: sympy is missing, or ``workers`` or ``timeout`` is out of range.
    """

    name = "math_qwen"
    version = "2"

    def __init__(self, *, workers: int = 1, timeout: float = 5.0) -> None:
        super().__init__(
            handler="dph.verifiers.qwen_grading:make_qwen_grader",
            options={},
            workers=workers,
            timeout=timeout,
        )
