"""Rows of mathematical answers: ``gold`` and ``response``."""

from collections.abc import Mapping, Sequence
from typing import Any

from dph.grading.stream import GradedRow
from dph.records import Outcome, Verdict
from dph.verifiers.closing import Closing
from dph.verifiers.mathematics import MathPair, MathQwenVerifier, MathVerifier

_VERIFIERS: Mapping[str, type[MathVerifier] | type[MathQwenVerifier]] = {
    verifier.name: verifier for verifier in (MathVerifier, MathQwenVerifier)
}


class MathRowGrader(Closing):
    """Grades rows by ``math`` or ``math_qwen``.

    Args:
        verifier: the name of one of the two.
        workers: worker processes.
        timeout: seconds for one answer.

    Raises:
        SettingsError: the extra ``math`` is not installed, or a number is out of range.
    """

    required = ("gold", "response")

    def __init__(self, *, verifier: str = "math", workers: int = 1, timeout: float = 5.0) -> None:
        self._verifier = _VERIFIERS[verifier](workers=workers, timeout=timeout)
        self.settings: Mapping[str, Any] = {
            "verifier": f"{verifier} {self._verifier.version}",
            "timeout": timeout,
        }

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[GradedRow]:
        """One graded row for each, in order; what is no text is BAD_GOLD or NO_ANSWER.

        Raises:
            VerifierError: a worker failed; not: an answer did.
        """
        graded: list[GradedRow | None] = []
        pairs: dict[int, MathPair] = {}
        for index, row in enumerate(rows):
            found = _pair(row)
            if isinstance(found, MathPair):
                pairs[index] = found
            graded.append(None if isinstance(found, MathPair) else GradedRow(found, 0.0))
        for index, judged in zip(pairs, self._verifier.judge(list(pairs.values())), strict=True):
            graded[index] = GradedRow(judged.verdict, judged.seconds)
        return [row for row in graded if row is not None]

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._verifier.close()


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
