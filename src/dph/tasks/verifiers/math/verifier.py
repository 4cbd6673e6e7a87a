"""The verifier ``math``: strict enough to train with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from dph._base.provenance import install_command
from dph._processes.workers.pool import GOLD_STAGE, Reply, WorkerPool
from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.tasks.verifiers.base import Gold, GoldJudge, PooledVerifier
from dph.tasks.verifiers.math.answer import PHRASES, find_answer
from dph.tasks.verifiers.turn import read_turn

# ``math`` and ``math_qwen`` need the extra ``dph-rl[math]`` and run in worker processes that are
# killed when an answer takes too long. A problem's answer has ``answer``, the gold, in LaTeX or
# plain.

_MEMORY_BYTES = 3_000_000_000


@dataclass(frozen=True, slots=True)
class MathPair:
    """A gold answer and a response."""

    gold: str
    response: str


class PooledMathVerifier(PooledVerifier[MathPair]):
    """Sends pairs of gold and response to a handler in worker processes."""

    version: str

    def __init__(
        self, *, handler: str, options: dict[str, Any], workers: int, timeout: float
    ) -> None:
        if missing := [package for package in ("sympy", "math_verify") if not find_spec(package)]:
            raise SettingsError(
                f"the {self.name} verifier needs the package {missing[0]}: "
                + install_command("math")
            )
        self.settings: Mapping[str, Any] = {**options, "timeout": float(timeout)}
        self._pool = WorkerPool(
            handler=handler,
            options=options | {"memory_bytes": _MEMORY_BYTES},
            workers=workers,
            timeout=timeout,
            shared_stage=GOLD_STAGE,
        )
        self._judge = GoldJudge(self._pool, seconds=timeout)

    def _pair(self, problem: Problem, response: str) -> MathPair:
        gold = problem.answer.get("answer")
        if gold is None:
            raise DataError(
                f"the {self.name} verifier needs 'answer' in problem {problem.problem_id!r}, "
                f"its fields are {sorted(problem.answer)}"
            )
        return MathPair(str(gold), response)

    def _replies(self, pairs: list[MathPair]) -> list[Reply]:
        requests = [{"gold": pair.gold, "response": pair.response} for pair in pairs]
        return self._judge.run(requests, golds=[pair.gold for pair in pairs])

    def _subject(self, pair: MathPair) -> str:
        return pair.response


class MathVerifier(PooledMathVerifier):
    r"""Judges the last boxed answer, or what follows a final-answer phrase.

    Spellings, numbers, choices and units are compared exactly; the rest by math-verify, whose
    yes must be borne out by the numbers. Wrong answers near the gold are wrong.

    Args:
        phrases: what announces an answer that is not boxed, upper and lower case alike; None for
            ``PHRASES``, an empty list for only boxes.
        any_expression: without box and phrase, take the last expression of the response.
        workers: number of worker processes.
        timeout: seconds for one answer.

    Raises:
        SettingsError: math-verify is missing, a phrase is blank, or ``workers`` or ``timeout`` is
            out of range.
    """

    name = "math"
    version = "6"

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
            raise SettingsError(f"a final-answer phrase must be text, got {blank[0]!r}")
        lower = [phrase.lower() for phrase in chosen]
        if chosen != PHRASES or not any_expression:
            self.version = f"{self.version} (phrases={lower}, any_expression={any_expression})"
        handler = "dph.tasks.verifiers.math.handler:make_math_grader"
        options = {"phrases": lower, "any_expression": any_expression}
        super().__init__(handler=handler, options=options, workers=workers, timeout=timeout)

    def gold_of(self, response: str) -> Gold | None:
        """The boxes, or the text after a phrase; other expressions are not compared."""
        found = find_answer(read_turn(response).answer, self.settings["phrases"])
        if found is None or not any(part.strip() for part in found.parts):
            return None
        return {"answer": " ".join(f"\\boxed{{{part}}}" for part in found.parts)}
