"""Rows of mathematical answers: ``gold`` and ``response``."""

from collections.abc import Mapping, Sequence
from typing import Any

from dph._base.closing import Closing
from dph.errors import SettingsError
from dph.records import Outcome, TimedVerdict, Verdict
from dph.tasks.verifiers import verifier_identity
from dph.tasks.verifiers.math.verifier import MathPair
from dph.tasks.verifiers.math.verifier import MathVerifier
from dph.tasks.verifiers.qwen.verifier import MathQwenVerifier

MATH_VERIFIERS = (MathVerifier.name, MathQwenVerifier.name)
"""The verifiers whose rows a MathRowGrader grades."""


class MathRowGrader(Closing):
    """Grades rows by ``math`` or ``math_qwen``.

    Args:
        verifier: the name of one of the two.
        phrases: of MathVerifier; ``math`` alone has them.
        any_expression: of MathVerifier, likewise.
        workers: worker processes.
        timeout: seconds for one answer.

    Raises:
        SettingsError: the extra ``math`` is not installed, a setting is out of range, or
            ``math_qwen`` is given one of those it does not have.
    """

    required = ("gold", "response")

    def __init__(
        self,
        *,
        verifier: str = "math",
        phrases: Sequence[str] | None = None,
        any_expression: bool = True,
        workers: int = 1,
        timeout: float = 5.0,
    ) -> None:
        self._verifier = _verifier(verifier, phrases, any_expression, workers, timeout)
        self.settings: Mapping[str, Any] = {
            **verifier_identity(self._verifier),
        }

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        """One graded row for each, in order; a value that is not text is BAD_GOLD or NO_ANSWER.

        Raises:
            VerifierError: a worker failed; not: an answer did.
        """
        graded: list[TimedVerdict | None] = []
        pairs: dict[int, MathPair] = {}
        for index, row in enumerate(rows):
            found = _pair(row)
            if isinstance(found, MathPair):
                pairs[index] = found
            graded.append(None if isinstance(found, MathPair) else TimedVerdict(found, 0.0))
        for index, judged in zip(pairs, self._verifier.judge(list(pairs.values())), strict=True):
            graded[index] = judged
        return [row for row in graded if row is not None]

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._verifier.close()


def _verifier(
    name: str,
    phrases: Sequence[str] | None,
    any_expression: bool,
    workers: int,
    timeout: float,
) -> MathVerifier | MathQwenVerifier:
    if name == MathVerifier.name:
        return MathVerifier(
            phrases=phrases, any_expression=any_expression, workers=workers, timeout=timeout
        )
    if phrases is not None or not any_expression:
        raise SettingsError(
            f"{name} finds answers as its tool does: phrases and any_expression "
            f"are settings of {MathVerifier.name}"
        )
    return MathQwenVerifier(workers=workers, timeout=timeout)


def _pair(row: Mapping[str, Any]) -> MathPair | Verdict:
    gold, response = row.get("gold"), row.get("response")
    if isinstance(gold, int | float) and not isinstance(gold, bool):
        gold = str(gold)
    if not isinstance(gold, str) or not gold.strip():
        return _verdict(Outcome.BAD_GOLD, f"gold is no text: {gold!r:.80}")
    if not isinstance(response, str):
        return _verdict(Outcome.NO_ANSWER, f"response is no text: {response!r:.80}")
    return MathPair(gold, response)


def _verdict(outcome: Outcome, reason: str) -> Verdict:
    return Verdict(outcome=outcome, reward=0.0, reason=reason)
