"""Answers as a verifier reads them: rows of a file by their columns, and sequences at hand."""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from numbers import Real
from pathlib import Path
from threading import Lock
from typing import Any, Generic, Literal, TypeVar

from dph._base.closing import Closing
from dph._base.files.rows import plain_value
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem, TimedVerdict, Verdict
from dph.tasks.agreement import warn_of_contradictions
from dph.tasks.problems import load_problems, problems_fingerprint
from dph.tasks.sql.prompt import database_file
from dph.tasks.verifiers import VERIFIERS, make_verifier, verifier_identity
from dph.tasks.verifiers.base import refused
from dph.tasks.verifiers.code.task import FIELDS, OTHER_FIELDS, parse_task
from dph.tasks.verifiers.code.verifier import MEMORY_MB, CodePair, CodeVerifier, program_of
from dph.tasks.verifiers.math.verifier import MathPair, MathVerifier
from dph.tasks.verifiers.qwen.verifier import MathQwenVerifier
from dph.tasks.verifiers.sql.extraction import extract_sql
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier
from dph.tasks.verifiers.table import require_own_settings

Pair = TypeVar("Pair")
_NO_ID = "(no problem_id)"
_OF_THE_PROBLEM = ("problem_id", "prompt", "response")


class PairRowGrader(Closing, Generic[Pair]):
    """Grades rows by the pairs that they make.

    ``verifier`` judges pairs; ``required`` and ``settings`` are those of a
    dph.tasks.grading.stream.RowGrader.
    """

    def __init__(
        self, verifier: Any, required: tuple[str, ...], settings: Mapping[str, Any]
    ) -> None:
        self._verifier, self.required, self.settings = verifier, required, settings

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        found: list[TimedVerdict] = self._verifier.judge([self._pair(row) for row in rows])
        return found

    def close(self) -> None:
        self._verifier.close()

    def _pair(self, row: Mapping[str, Any]) -> Pair | Verdict:
        raise NotImplementedError


def _not_text(row: Mapping[str, Any], name: str) -> str:
    return f"{name} is not text: {row.get(name)!r:.80}"


class VerifierRowGrader(PairRowGrader[tuple[Problem, str]]):
    """Grades rows of ``response`` by a verifier; the other columns are the problem's fields.

    ``problem_id`` and ``prompt`` may be there; the other columns are in the problem's
    ``answer``, as in a file of problems. The verifiers with a name read the field ``answer``.
    The seconds of a row are its share of the time that its chunk took.

    ``verifier`` is any but ``sql`` and ``code``, ``gold`` a column whose value becomes the field
    ``answer``; ``settings`` are the verifier's own, by their keys in a recipe's ``[data]``.
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
        require_own_settings(verifier, settings)
        self._gold = gold or (None if row is None else row.column)
        self._one_at_a_time = Lock()
        made = make_verifier(verifier, workers=workers, timeout=timeout, **settings)
        required = ("response",) if self._gold is None else (self._gold, "response")
        super().__init__(made, required, {**verifier_identity(made), "gold": gold})

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        found = [self._pair(row) for row in rows]
        asked = [pair for pair in found if not isinstance(pair, Verdict)]
        with self._one_at_a_time:  # which is what verifiers promise
            started = time.perf_counter()
            verdicts = self._verifier.grade([p for p, _ in asked], [r for _, r in asked])
            seconds = (time.perf_counter() - started) / max(len(asked), 1)
        known = [p.prompt if p.problem_id == _NO_ID else p.problem_id for p, _ in asked]
        each = zip(known, asked, verdicts, strict=True)
        said = ((str(name), pair[1], verdict.outcome) for name, pair, verdict in each if name)
        warn_of_contradictions(self._verifier.name, said)
        graded = iter([TimedVerdict(verdict, seconds) for verdict in verdicts])
        return [TimedVerdict(p, 0.0) if isinstance(p, Verdict) else next(graded) for p in found]

    def _pair(self, row: Mapping[str, Any]) -> tuple[Problem, str] | Verdict:
        if self._gold is not None and row.get(self._gold) is None:
            return refused(Outcome.BAD_GOLD, f"there is no {self._gold}")
        response = row.get("response")
        if not isinstance(response, str):
            return refused(Outcome.NO_ANSWER, _not_text(row, "response"))
        fields = {
            name: plain_value(value, f"column {name!r}")
            for name, value in row.items()
            if name not in _OF_THE_PROBLEM
        }
        if self._gold is not None:
            fields["answer"] = fields[self._gold]
        problem_id, prompt = row.get("problem_id"), row.get("prompt")
        name = _NO_ID if problem_id is None else str(problem_id)
        asked = tuple(prompt) if isinstance(prompt, list) else str(prompt or "")
        return Problem(problem_id=name, prompt=asked, answer=fields), response


class CodeRowGrader(PairRowGrader[CodePair]):
    """Grades rows of programs in Python.

    ``columns`` are those of the file: a ``program`` is run as it is; from a ``response``, which is
    read where there is no ``program``, the program is extracted first. ``problems`` is a file of
    problems that have the tests, found by ``problem_id``; without one every row has its own.
    ``missing`` names parts of the confinement of programs that this machine lacks.
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
        loaded = [] if problems is None else load_problems(problems)
        tasks = {
            e.problem_id: parse_task(e.answer, f"{problems}, {e.problem_id!r}") for e in loaded
        }
        self._tasks = None if problems is None else tasks
        verifier = CodeVerifier(workers=workers, timeout=timeout, memory_mb=memory_mb)
        self.missing = verifier.missing
        settings = {**verifier_identity(verifier), "answers": self._answers}
        settings["problems"] = problems_fingerprint(loaded) if loaded else ""
        super().__init__(verifier, ("problem_id" if loaded else tests, self._answers), settings)

    def _pair(self, row: Mapping[str, Any]) -> CodePair | Verdict:
        problem_id, tests = str(row.get("problem_id")), (*FIELDS, *OTHER_FIELDS)
        try:
            if self._tasks is None:
                own = {n: row[n] for n in tests if row.get(n) is not None}
                fields = {n: plain_value(value, f"column {n!r}") for n, value in own.items()}
                task = parse_task(fields, "the row")
            elif problem_id in self._tasks:
                task = self._tasks[problem_id]
            else:
                return refused(Outcome.BAD_GOLD, f"there is no problem {problem_id!r}"[:400])
        except DataError as error:
            return refused(Outcome.BAD_GOLD, str(error)[:400])
        answer = row.get(self._answers)
        if not isinstance(answer, str):
            return refused(Outcome.NO_ANSWER, _not_text(row, self._answers))
        program = answer if self._answers == "program" else program_of(answer, task)
        if program is None or not program.strip():
            return refused(Outcome.NO_ANSWER, f"no program in the {self._answers}")
        return CodePair(task, program)


MATH_VERIFIERS = (MathVerifier.name, MathQwenVerifier.name)
"""The verifiers whose rows a MathRowGrader grades."""


class MathRowGrader(PairRowGrader[MathPair]):
    """Grades rows of ``gold`` and ``response`` by ``math``, or ``math_qwen`` without settings."""

    def __init__(
        self,
        *,
        verifier: str = MathVerifier.name,
        phrases: Sequence[str] | None = None,
        any_expression: bool = True,
        workers: int = 1,
        timeout: float = 5.0,
    ) -> None:
        if verifier != MathVerifier.name and (phrases is not None or not any_expression):
            raise SettingsError(
                f"{verifier} finds answers the way its tool does: phrases and any_expression "
                f"are settings of {MathVerifier.name}"
            )
        own: dict[str, Any] = {"math_phrases": phrases, "math_any_expression": any_expression}
        made = make_verifier(verifier, workers=workers, timeout=timeout, **own)
        super().__init__(made, ("gold", "response"), verifier_identity(made))

    def _pair(self, row: Mapping[str, Any]) -> MathPair | Verdict:
        gold, response = row.get("gold"), row.get("response")
        if isinstance(gold, int | float) and not isinstance(gold, bool):
            gold = str(gold)
        if not isinstance(gold, str) or not gold.strip():
            return refused(Outcome.BAD_GOLD, _not_text(row, "gold"))
        if not isinstance(response, str):
            return refused(Outcome.NO_ANSWER, _not_text(row, "response"))
        return MathPair(gold, response)


AnswerColumn = Literal["pred_sql", "response"]
_FILES = (".sqlite", ".sqlite3", ".db")


def answer_column(columns: Sequence[str]) -> AnswerColumn:
    return "response" if "response" in columns and "pred_sql" not in columns else "pred_sql"


def database_path(db_id: str) -> str:
    """Path of a database below the directory of databases.

    >>> database_path("pets_1"), database_path("/data/pets"), database_path("old/pets.db")
    ('pets_1/pets_1.sqlite', '/data/pets', 'old/pets.db')
    """
    path = Path(db_id)
    return db_id if path.is_absolute() or path.suffix in _FILES else database_file(db_id)


class SQLRowGrader(PairRowGrader[SQLPair]):
    """Grades rows by one of the SQL rules, on the databases below a directory.

    Of the columns of answers, ``pred_sql`` is run as it is; from a ``response`` the statement is
    extracted first.
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
        verifier = SQLVerifier(databases=databases, rule=rule, workers=workers, timeout=timeout)
        self._answers = answers
        settings = {
            "verifier": [verifier.name, verifier.version],
            **verifier.own_settings,
            # Where they lie: to hash them all would take longer than most files do to grade.
            "databases": str(databases.resolve()),
            "answers": answers,
        }
        super().__init__(verifier, ("db_id", "gold_sql", answers), settings)

    def _pair(self, row: Mapping[str, Any]) -> SQLPair | Verdict:
        for name in ("db_id", "gold_sql"):
            if not isinstance(row.get(name), str) or not row[name]:
                return refused(Outcome.BAD_GOLD, _not_text(row, name))
        answer = row.get(self._answers)
        if not isinstance(answer, str):
            return refused(Outcome.NO_ANSWER, _not_text(row, self._answers))
        database, gold = database_path(row["db_id"]), row["gold_sql"]
        if self._answers == "pred_sql":
            return SQLPair(database, gold, answer, whole=True)
        if found := extract_sql(answer):
            return SQLPair(database, gold, found.statement)
        return refused(Outcome.NO_ANSWER, "no SQL in the response")


def grade_sql(
    predictions: Sequence[str],
    golds: Sequence[str],
    databases: Sequence[str | Path] | str | Path,
    *,
    rule: str = "bird",
    workers: int = 1,
    timeout: float = 5.0,
) -> list[Verdict]:
    """Run predicted SQL and the gold's, and say for each pair whether the results are equal.

    Every statement runs in a worker process that can only read, and is killed when it hangs. A
    bad prediction is a verdict (INVALID, TIMED_OUT ...), and so is a gold that does not run
    (BAD_GOLD).

        verdicts = grade_sql(["SELECT 1"], ["SELECT 1.0"], "pets.sqlite", rule="strict")

    Args:
        predictions: SQL statements, which are run as they are.
        golds: the gold statement of each.
        databases: the database of each, or one for all: an SQLite file, or a directory
            ``<name>`` that holds ``<name>.sqlite``.
        rule: when two results are equal: spider, bird, bird_soft_f1, strict or cartesian
            (docs/guides/grading.md).
        workers: worker processes.
        timeout: seconds for one statement.

    Returns:
        One verdict for each prediction, in order; a row of several statements costs no other row.

    Raises:
        DataError: an argument is one text where a sequence is meant, the sequences differ in
            length, hold something other than texts, or a database is not there.
        SettingsError: the rule is unknown, or a number is out of range.
        VerifierError: a worker failed; not: a statement did.
    """
    _require_texts(predictions=predictions, golds=golds)
    if isinstance(databases, str | Path):
        files = [_database(databases)] * len(golds)
    else:
        known = {place: _database(place) for place in databases}
        files = [known[place] for place in databases]
    _require_same_length(predictions=predictions, golds=golds, databases=files)
    each = zip(files, golds, predictions, strict=True)
    pairs = [SQLPair(file, gold, predicted, whole=True) for file, gold, predicted in each]
    with SQLVerifier(rule=rule, workers=workers, timeout=timeout) as verifier:
        return [judged.verdict for judged in verifier.judge(pairs)]


def grade_math(
    responses: Sequence[str],
    golds: Sequence[str | int | float],
    *,
    verifier: str = "math",
    workers: int = 1,
    timeout: float = 5.0,
) -> list[Verdict]:
    r"""Find the answer in each response and compare it with its gold.

    ``math`` and ``math_qwen`` need ``dph-rl[math]``; every answer is read in a worker process,
    which is killed when it hangs. A gold that cannot be read is the verdict BAD_GOLD.

        verdicts = grade_math([r"so it is \boxed{\frac{1}{2}}"], ["0.5"])

    Args:
        responses: texts in which the answer is found.
        golds: the gold answer of each, a text (LaTeX or plain) or a number.
        verifier: math (strict), math_qwen (as Qwen2.5-Math's tool), number, exact, or a function
            of yours as ``module:function``.
        workers: worker processes, where the verifier has any.
        timeout: seconds for one answer, likewise.

    Returns:
        One verdict for each response, in order.

    Raises:
        DataError: an argument is one text where a sequence is meant, the sequences differ in
            length, or a response is not a text.
        SettingsError: there is no such verifier, a package is missing, or a number is out of
            range.
        VerifierError: a worker failed; not: an answer did.
    """
    texts: Any = golds
    if not isinstance(golds, str):
        texts = [str(g) if isinstance(g, Real) and not isinstance(g, bool) else g for g in golds]
    _require_texts(responses=responses, golds=texts)
    _require_same_length(responses=responses, golds=texts)
    problems = [
        Problem(problem_id=str(index), prompt="", answer={"answer": gold})
        for index, gold in enumerate(texts)
    ]
    with closing(make_verifier(verifier, workers=workers, timeout=timeout)) as made:
        return made.grade(problems, responses)


def grade_code(
    programs: Sequence[str],
    tasks: Sequence[Mapping[str, Any]] | Mapping[str, Any],
    *,
    workers: int = 1,
    timeout: float = 5.0,
    memory_mb: int = 1000,
) -> list[Verdict]:
    """Run Python programs against tests, each in a confined process (docs/guides/grading.md).

        verdicts = grade_code(["def add(a, b): return a + b"], {"tests": "assert add(1, 2) == 3"})

    Args:
        programs: texts, which are run as they are.
        tasks: the tests of each, or one for all: a mapping with ``tests`` or ``cases``, and with
            ``entry_point``, ``setup`` and ``prefix`` if need be.
        workers: worker processes.
        timeout: seconds for one test; ten times that for all tests of a program.
        memory_mb: address space of a program, in units of 10^6 bytes.

    Returns:
        One verdict for each program, in order.

    Raises:
        DataError: an argument is one text where a sequence is meant, the sequences differ in
            length, or tests are missing or malformed.
        SettingsError: a number is out of range, or programs cannot be run here.
        VerifierError: a worker failed; not: a program did.
    """
    each = [tasks] * len(programs) if isinstance(tasks, Mapping) else tasks
    _require_texts(programs=programs)
    _require_same_length(programs=programs, tasks=each)
    pairs = [
        CodePair(parse_task(task, f"tasks[{index}]"), program)
        for index, (task, program) in enumerate(zip(each, programs, strict=True))
    ]
    with CodeVerifier(workers=workers, timeout=timeout, memory_mb=memory_mb) as verifier:
        return [judged.verdict for judged in verifier.judge(pairs)]


def _require_texts(**arguments: Sequence[str]) -> None:
    for name, values in arguments.items():
        if isinstance(values, str | bytes):
            raise DataError(
                f"{name} is a sequence of texts, got one text, {values!r:.80}; write [text] for one"
            )
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise DataError(
                    f"{name}[{index}] must be text, got {value!r:.80} ({type(value).__name__})"
                )


def _require_same_length(**arguments: Sequence[object]) -> None:
    lengths = {name: len(values) for name, values in arguments.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise DataError(f"need one of each for every answer, got {counts}")


def _database(place: str | Path) -> str:
    path = Path(place)
    file = path / f"{path.name}.sqlite" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"there is no database {file}")
    return str(file.absolute())
