"""The verifier ``math``: strict enough to train with."""

from collections.abc import Sequence

from dph.errors import SettingsError
from dph.tasks.verifiers.math.answer import PHRASES
from dph.tasks.verifiers.math.pooled import PooledMathVerifier


class MathVerifier(PooledMathVerifier):
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
    version = "4"

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
            handler="dph.tasks.verifiers.math.handler:make_math_grader",
            options={"phrases": lower, "any_expression": any_expression},
            workers=workers,
            timeout=timeout,
        )
