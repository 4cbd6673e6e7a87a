"""Rows graded by any verifier, the user's own function included: a row is a problem's answer."""

import time
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from dph._base.closing import Closing
from dph._base.files.atomic import plain_value
from dph._base.import_path import is_import_path
from dph.errors import SettingsError
from dph.records import Outcome, Problem, TimedVerdict, Verdict
from dph.tasks.verifiers import make_verifier, verifier_identity

_NO_ID = "(no problem_id)"
_ELSEWHERE = {
    "sql": "answers in SQL need databases: grade them with `dph grade sql`",
    "code": "programs need tests: grade them with `dph grade code`",
}
_OF_THE_PROBLEM = ("problem_id", "prompt", "response")


class VerifierRowGrader(Closing):
    """Grades rows of ``response`` by a verifier; the other columns are the problem's fields.

    ``problem_id`` and ``prompt`` may be there; whatever else a row has is in the problem's
    ``answer``, as in a file of problems. The verifiers with a name read the field ``answer``.
    The seconds of a row are its share of the time that its chunk took.

    Args:
        verifier: an import path ``module:function``, or a name of dph.tasks.verifiers.VERIFIERS
        other
            than ``sql`` and ``code``, whose rows SQLRowGrader and CodeRowGrader grade.
        gold: a column whose value becomes the field ``answer``.
        workers: worker processes, where the verifier has any.
        timeout: seconds for one answer, likewise.

    Raises:
        SettingsError: there is no such verifier, it cannot be used, or a number is out of range.
    """

    def __init__(
        self, verifier: str, *, gold: str | None = None, workers: int = 1, timeout: float = 5.0
    ) -> None:
        if verifier in _ELSEWHERE:
            raise SettingsError(_ELSEWHERE[verifier])
        self._gold = gold or (None if is_import_path(verifier) else "answer")
        self._verifier = make_verifier(verifier, workers=workers, timeout=timeout)
        self._one_at_a_time = Lock()
        self.required = ("response",) if self._gold is None else (self._gold, "response")
        self.settings: Mapping[str, Any] = {
            **verifier_identity(self._verifier),
            "gold": gold,
        }

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        """One graded row for each, in order; what lacks a gold or a response is not graded.

        Raises:
            DataError: a value is nothing that JSON knows.
            VerifierError: the verifier itself broke.
        """
        found = [self._lacking(row) for row in rows]
        places = [index for index, verdict in enumerate(found) if verdict is None]
        problems = [self._problem(rows[index]) for index in places]
        responses = [rows[index]["response"] for index in places]
        with self._one_at_a_time:  # which is what verifiers promise
            started = time.perf_counter()
            verdicts = self._verifier.grade(problems, responses) if places else []
            seconds = (time.perf_counter() - started) / max(len(places), 1)
        graded = dict(zip(places, verdicts, strict=True))
        return [
            TimedVerdict(graded[index], seconds) if verdict is None else TimedVerdict(verdict, 0.0)
            for index, verdict in enumerate(found)
        ]

    def close(self) -> None:
        """Stop the worker processes, if there are any. Closing twice is harmless."""
        self._verifier.close()

    def _lacking(self, row: Mapping[str, Any]) -> Verdict | None:
        """The verdict on a row that cannot be given to the verifier."""
        if self._gold is not None and row.get(self._gold) is None:
            return _verdict(Outcome.BAD_GOLD, f"there is no {self._gold}")
        response = row.get("response")
        if not isinstance(response, str):
            return _verdict(Outcome.NO_ANSWER, f"response is no text: {response!r:.80}")
        return None

    def _problem(self, row: Mapping[str, Any]) -> Problem:
        fields = {
            name: plain_value(value, f"column {name!r}")
            for name, value in row.items()
            if name not in _OF_THE_PROBLEM
        }
        if self._gold is not None:
            fields["answer"] = fields[self._gold]
        problem_id, prompt = row.get("problem_id"), row.get("prompt")
        return Problem(
            problem_id=_NO_ID if problem_id is None else str(problem_id),
            prompt=tuple(prompt) if isinstance(prompt, list) else str(prompt or ""),
            answer=fields,
        )


def _verdict(outcome: Outcome, reason: str) -> Verdict:
    return Verdict(outcome=outcome, reward=0.0, reason=reason)
