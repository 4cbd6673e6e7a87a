"""Rows of text-to-SQL answers: ``db_id``, ``gold_sql``, and ``pred_sql`` or ``response``."""

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Literal, Protocol, TypeVar

from dph._base.closing import Closing
from dph._base.files.rows import plain_value
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem, TimedVerdict, Verdict
from dph.tasks.problems import load_problems, problems_fingerprint
from dph.tasks.verifiers import make_verifier, verifier_identity
from dph.tasks.verifiers.code.task import FIELDS, OTHER_FIELDS, CodeTask, parse_task
from dph.tasks.verifiers.code.verifier import MEMORY_MB, CodePair, CodeVerifier, program_of
from dph.tasks.verifiers.math.verifier import MathPair, MathVerifier
from dph.tasks.verifiers.qwen.verifier import MathQwenVerifier
from dph.tasks.verifiers.sql.extraction import extract_sql
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier
from dph.tasks.verifiers.table import VERIFIERS

Pair = TypeVar("Pair")
Judged = TypeVar("Judged", contravariant=True)
_NO_ID = "(no problem_id)"
_OF_THE_PROBLEM = ("problem_id", "prompt", "response")


class VerifierRowGrader(Closing):
    """Grades rows of ``response`` by a verifier; the other columns are the problem's fields.

    ``problem_id`` and ``prompt`` may be there; whatever else a row has is in the problem's
    ``answer``, as in a file of problems. The verifiers with a name read the field ``answer``.
    The seconds of a row are its share of the time that its chunk took.

    Args:
        verifier: an import path ``module:function``, or a name of dph.tasks.verifiers.VERIFIERS
            other than ``sql`` and ``code``, whose rows SQLRowGrader and CodeRowGrader grade.
        gold: a column whose value becomes the field ``answer``.
        workers: worker processes, where the verifier has any.
        timeout: seconds for one answer, likewise.
        settings: the verifier's own, by their keys in a recipe's ``[data]``.
    """

    def __init__(
        self,
        verifier: str,
        *,
        gold: str | None = None,
        workers: int = 1,
        timeout: float = 5.0,
        **settings: Any,
    ) -> None:
        row = VERIFIERS.get(verifier)
        if row is not None and row.elsewhere:
            raise SettingsError(row.elsewhere)
        own = {} if row is None else row.settings
        if others := [key for key in settings if key not in own]:
            raise SettingsError(f"{others[0]} is not a setting of the verifier {verifier!r}")
        self._gold = gold or (None if row is None else row.column)
        self._verifier = make_verifier(verifier, workers=workers, timeout=timeout, **settings)
        self._one_at_a_time = Lock()
        self.required = ("response",) if self._gold is None else (self._gold, "response")
        self.settings: Mapping[str, Any] = {
            **verifier_identity(self._verifier),
            "gold": gold,
        }

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        """One graded row for each, in order; what lacks a gold or a response is not graded."""
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
            return _verdict(Outcome.NO_ANSWER, f"response is not text: {response!r:.80}")
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


class PairVerifier(Protocol[Judged]):
    """A verifier of pairs."""

    def judge(self, pairs: Sequence[Judged]) -> list[TimedVerdict]:
        """A verdict for each pair, in order."""
        ...

    def close(self) -> None:
        """Stop the worker processes."""
        ...


class PairRowGrader(Closing, Generic[Pair]):
    """Grades rows by the pairs that they make."""

    _verifier: PairVerifier[Pair]

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        """One graded row for each, in order; one that makes no pair is BAD_GOLD or NO_ANSWER."""
        found = [self._pair(row) for row in rows]
        pairs = [pair for pair in found if not isinstance(pair, Verdict)]
        judged = iter(self._verifier.judge(pairs))
        return [
            TimedVerdict(pair, 0.0) if isinstance(pair, Verdict) else next(judged) for pair in found
        ]

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._verifier.close()

    def _pair(self, row: Mapping[str, Any]) -> Pair | Verdict:
        """The pair of a row, or the verdict on one that makes none."""
        raise NotImplementedError


class CodeRowGrader(PairRowGrader[CodePair]):
    """Grades rows of programs in Python.

    Args:
        columns: of the file. ``program`` is run as it is; from a ``response``, which is read where
            there is no ``program``, the program is extracted first.
        problems: a file of problems that have the tests, found by ``problem_id``; without one
            every row has its own (dph.tasks.verifiers.code.task).
        workers: worker processes.
        timeout: seconds for one test.
        memory_mb: address space of a program, in units of 10^6 bytes.
    """

    _verifier: CodeVerifier

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
        """Parts of the confinement of programs that this machine lacks."""
        return self._verifier.missing

    def _pair(self, row: Mapping[str, Any]) -> CodePair | Verdict:
        try:
            task = self._task(row)
        except DataError as error:
            return _verdict(Outcome.BAD_GOLD, str(error)[:400])
        answer = row.get(self._answers)
        if not isinstance(answer, str):
            return _verdict(Outcome.NO_ANSWER, f"{self._answers} is not text: {answer!r:.80}")
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


MATH_VERIFIERS = (MathVerifier.name, MathQwenVerifier.name)
"""The verifiers whose rows a MathRowGrader grades."""


class MathRowGrader(PairRowGrader[MathPair]):
    """Grades rows by ``math`` or ``math_qwen``.

    Args:
        verifier: the name of one of the two.
        phrases: of MathVerifier; ``math`` alone has them.
        any_expression: of MathVerifier, likewise.
        workers: worker processes.
        timeout: seconds for one answer.
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

    def _pair(self, row: Mapping[str, Any]) -> MathPair | Verdict:
        gold, response = row.get("gold"), row.get("response")
        if isinstance(gold, int | float) and not isinstance(gold, bool):
            gold = str(gold)
        if not isinstance(gold, str) or not gold.strip():
            return _verdict(Outcome.BAD_GOLD, f"gold is not text: {gold!r:.80}")
        if not isinstance(response, str):
            return _verdict(Outcome.NO_ANSWER, f"response is not text: {response!r:.80}")
        return MathPair(gold, response)


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
            f"{name} finds answers the way its tool does: phrases and any_expression "
            f"are settings of {MathVerifier.name}"
        )
    return MathQwenVerifier(workers=workers, timeout=timeout)


AnswerColumn = Literal["pred_sql", "response"]
_FILES = (".sqlite", ".sqlite3", ".db")


def answer_column(columns: Sequence[str]) -> AnswerColumn:
    """Column of the answers: ``pred_sql`` if it is there, else ``response``."""
    return "response" if "response" in columns and "pred_sql" not in columns else "pred_sql"


def database_path(db_id: str) -> str:
    """Path of a database below the directory of databases.

    >>> database_path("pets_1"), database_path("/data/pets"), database_path("old/pets.db")
    ('pets_1/pets_1.sqlite', '/data/pets', 'old/pets.db')
    """
    path = Path(db_id)
    is_file = path.is_absolute() or path.suffix in _FILES
    return db_id if is_file else f"{db_id}/{db_id}.sqlite"


class SQLRowGrader(PairRowGrader[SQLPair]):
    """Grades rows by one of the SQL rules.

    Args:
        databases: holds ``<db_id>/<db_id>.sqlite``; a ``db_id`` that is
            absolute or ends like a database file is its path.
        rule: a name of dph.tasks.verifiers.sql.rules.RULES.
        answers: the column of the answers. ``pred_sql`` is run as it is; from a ``response`` the
            statement is extracted first.
        workers: worker processes.
        timeout: seconds for one statement.
    """

    def __init__(
        self,
        *,
        databases: Path,
        rule: str = "bird",
        answers: AnswerColumn = "pred_sql",
        workers: int = 1,
        timeout: float = 5.0,
    ) -> None:
        if not databases.is_dir():
            raise DataError(f"the databases are not a directory: {databases}")
        self._verifier = SQLVerifier(
            databases=databases, rule=rule, workers=workers, timeout=timeout
        )
        self._answers = answers
        self.required = ("db_id", "gold_sql", answers)
        self.settings: Mapping[str, Any] = {
            "verifier": [self._verifier.name, self._verifier.version],
            **self._verifier.own_settings,
            # Where they lie: to hash them all would take longer than most files do to grade.
            "databases": str(databases.resolve()),
            "answers": answers,
        }

    def _pair(self, row: Mapping[str, Any]) -> SQLPair | Verdict:
        for name in ("db_id", "gold_sql"):
            value = row.get(name)
            if not isinstance(value, str) or not value:
                return _verdict(Outcome.BAD_GOLD, f"{name} is not text: {value!r:.80}")
        answer = row.get(self._answers)
        if not isinstance(answer, str):
            return _verdict(Outcome.NO_ANSWER, f"{self._answers} is not text: {answer!r:.80}")
        database, gold = database_path(row["db_id"]), row["gold_sql"]
        if self._answers == "pred_sql":
            return SQLPair(database, gold, answer, whole=True)
        if found := extract_sql(answer):
            return SQLPair(database, gold, found.statement)
        return _verdict(Outcome.NO_ANSWER, "no SQL in the response")
