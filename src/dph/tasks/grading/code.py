"""Rows of programs: ``program`` or ``response``, and their tests, or the problem that has them."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from dph._base.closing import Closing
from dph._base.files.atomic import plain_value
from dph.errors import DataError
from dph.records import Outcome, TimedVerdict, Verdict
from dph.tasks.problems import load_problems, problems_fingerprint
from dph.tasks.verifiers import verifier_identity
from dph.tasks.verifiers.code.task import FIELDS, OTHER_FIELDS, CodeTask, parse_task
from dph.tasks.verifiers.code.verifier import MEMORY_MB, CodePair, CodeVerifier, program_of


class CodeRowGrader(Closing):
    """Grades rows of programs in Python.

    Args:
        columns: of the file. ``program`` is run as it is; from a ``response``, which is read where
            there is no ``program``, the program is extracted first.
        problems: a file of problems that have the tests, found by ``problem_id``; without one
            every row has its own (dph.tasks.verifiers.code.task).
        workers: worker processes.
        timeout: seconds for one test.
        memory_mb: address space of a program, in units of 10^6 bytes.

    Raises:
        DataError: there are no tests, or a problem's are malformed.
        SettingsError: a number is out of range, or programs cannot be run here.
    """

    def __init__(
        self,
        *,
        columns: Collection[str],
        problems: Path | None = None,
        workers: int = 1,
        timeout: float = 5.0,
        memory_mb: int = MEMORY_MB,
    ) -> None:
        self._answers = "program" if "program" in columns else "response"
        tests = "cases" if "cases" in columns and "tests" not in columns else "tests"
        self.required = ("problem_id" if problems is not None else tests, self._answers)
        self._tasks: dict[str, CodeTask] | None = None
        fingerprint = ""
        if problems is not None:
            loaded = load_problems(problems)
            fingerprint = problems_fingerprint(loaded)
            self._tasks = {
                each.problem_id: parse_task(each.answer, f"{problems}, {each.problem_id!r}")
                for each in loaded
            }
        self._verifier = CodeVerifier(workers=workers, timeout=timeout, memory_mb=memory_mb)
        self.settings: Mapping[str, Any] = {
            **verifier_identity(self._verifier),
            "answers": self._answers,
            "problems": fingerprint,
        }

    @property
    def missing(self) -> tuple[str, ...]:
        """What this machine does not offer of the confinement of programs."""
        return self._verifier.missing

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        """One graded row for each, in order; a row without tests is BAD_GOLD.

        Raises:
            VerifierError: a worker failed; not: a program did.
        """
        graded: list[TimedVerdict | None] = []
        pairs: dict[int, CodePair] = {}
        for index, row in enumerate(rows):
            found = self._pair(row)
            if isinstance(found, CodePair):
                pairs[index] = found
            graded.append(None if isinstance(found, CodePair) else TimedVerdict(found, 0.0))
        for index, judged in zip(pairs, self._verifier.judge(list(pairs.values())), strict=True):
            graded[index] = judged
        return [row for row in graded if row is not None]

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._verifier.close()

    def _pair(self, row: Mapping[str, Any]) -> CodePair | Verdict:
        try:
            task = self._task(row)
        except DataError as error:
            return _verdict(Outcome.BAD_GOLD, str(error)[:400])
        answer = row.get(self._answers)
        if not isinstance(answer, str):
            return _verdict(Outcome.NO_ANSWER, f"{self._answers} is no text: {answer!r:.80}")
        program = answer if self._answers == "program" else program_of(answer, task)
        if program is None or not program.strip():
            return _verdict(Outcome.NO_ANSWER, f"no program in the {self._answers}")
        return CodePair(task, program)

    def _task(self, row: Mapping[str, Any]) -> CodeTask:
        if self._tasks is not None:
            problem_id = str(row.get("problem_id"))
            if problem_id not in self._tasks:
                raise DataError(f"there is no problem {problem_id!r}")
            return self._tasks[problem_id]
        fields = {
            name: plain_value(row[name], f"column {name!r}")
            for name in (*FIELDS, *OTHER_FIELDS)
            if row.get(name) is not None
        }
        return parse_task(fields, "the row")


def _verdict(outcome: Outcome, reason: str) -> Verdict:
    return Verdict(outcome=outcome, reward=0.0, reason=reason)
