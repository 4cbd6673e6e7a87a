"""How many crashes of a verifier are verdicts, and from where on the verifier itself is broken."""

from collections.abc import Iterable

from dph.errors import VerifierError
from dph.records import GradedCompletion, Outcome

_REASON_CHARACTERS = 300


class CrashCount:
    """Counts answers over which a verifier crashed, and refuses more than a share of them.

    Answers that were cut off are not counted: no verifier has seen them.

    Args:
        verifier: the verifier's name, for the message.
        limit: the largest share, in [0, 1], of the graded answers that may have crashed.
    """

    def __init__(self, verifier: str, limit: float) -> None:
        self._verifier, self._limit = verifier, limit
        self._graded = self._crashed = 0
        self._example = ""

    def add(self, groups: Iterable[Iterable[GradedCompletion]]) -> None:
        """Count these answers too.

        Raises:
            VerifierError: more than the share of all that were counted crashed.
        """
        for graded in (graded for group in groups for graded in group):
            outcome = graded.verdict.outcome
            self._graded += outcome is not Outcome.CUT_OFF
            if outcome is Outcome.CRASHED:
                self._crashed += 1
                self._example = self._example or _example(graded)
        if self._crashed > self._limit * self._graded:
            raise VerifierError(
                f"the verifier {self._verifier!r} crashed on {self._crashed} of {self._graded} "
                f"graded answers, more than data.verifier_crash_limit = {self._limit:g} allows; "
                f"for example on {self._example}; what was finished is kept: mend the verifier and "
                "start the same command again (with --accept-verifier if its file changed)"
            )


def _example(graded: GradedCompletion) -> str:
    reason = " ".join(graded.verdict.reason.split())
    if len(reason) > _REASON_CHARACTERS:  # the last lines of a traceback say what was raised
        reason = f"... {reason[-_REASON_CHARACTERS:]}"
    return f"problem {graded.completion.problem_id!r}: {reason}"
