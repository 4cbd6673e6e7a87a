"""From questions to problems: the prompt, what the verifier needs, and what is left out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from dph._processes.workers.handler import TellStage
from dph._processes.workers.pool import Pooled, Reply, WorkerPool, how_it_ended
from dph.errors import DataError
from dph.records import Outcome, Problem
from dph.tasks.sql.data_sets import SQLQuestion, SQLSplit, schemas_of
from dph.tasks.sql.prompt import SQLPrompts, database_file
from dph.tasks.verifiers.sql.executor import (
    SQLFailure,
    SQLLimits,
    database_uri,
    execute_sql,
    limit_memory,
)

# Which gold queries can tell a right answer from an empty one.
#
# A gold result without rows, or with nothing but NULL and 0, is matched by a great many wrong
# queries (a filter on a value that does not exist will do), so training on it rewards them.

_GRACE_SECONDS = 1.0
_AT_ONCE = 256


class GoldState(StrEnum):
    """Result of a gold query."""

    TELLING = "telling"
    EMPTY = "no rows"
    NULL_OR_ZERO = "only NULL or 0"
    FAILED = "does not run"
    TIMED_OUT = "runs too long"
    NO_DATABASE = "no database"


class GoldCheck(NamedTuple):
    """A gold query's state, with SQLite's message where it does not run."""

    state: GoldState
    reason: str = ""


class GoldChecker(Pooled):
    """Runs gold queries in worker processes that are killed when they take too long.

    Args:
        databases: holds ``<db_id>/<db_id>.sqlite``.
        workers: number of worker processes.
        timeout: seconds for one query.
    """

    def __init__(self, *, databases: Path, workers: int = 1, timeout: float = 5.0) -> None:
        self._databases = databases.absolute()
        self._pool = WorkerPool(
            handler="dph.tasks.sql.problems:make_gold_runner",
            options=asdict(SQLLimits()) | {"seconds": timeout},
            workers=workers,
            timeout=timeout + _GRACE_SECONDS,
        )

    def check(
        self, questions: Sequence[SQLQuestion], *, on_done: Callable[[int], None] = lambda _: None
    ) -> list[GoldCheck]:
        """One check for each question, in order; ``on_done`` hears how many more there are."""
        checks: list[GoldCheck] = []
        for start in range(0, len(questions), _AT_ONCE):
            asked = questions[start : start + _AT_ONCE]
            replies = self._pool.run(
                [
                    {"database": str(self._databases / database_file(q.db_id)), "sql": q.gold_sql}
                    for q in asked
                ]
            )
            checks += [_check(*pair) for pair in zip(replies, asked, strict=True)]
            on_done(len(replies))
        return checks


def make_gold_runner(
    options: Mapping[str, Any],
) -> Callable[[Mapping[str, str], TellStage], list[str]]:
    """The worker's handler; ``options`` are the fields of SQLLimits."""
    limits = SQLLimits(**options)
    limit_memory(limits)

    def run(request: Mapping[str, str], _stage: TellStage) -> list[str]:
        database = Path(request["database"])
        if not database.is_file():
            return [GoldState.NO_DATABASE, f"there is no {database}"]
        result = execute_sql(database_uri(database), request["sql"], limits)
        if isinstance(result, SQLFailure):
            timed_out = result.outcome is Outcome.TIMED_OUT
            return [GoldState.TIMED_OUT if timed_out else GoldState.FAILED, result.reason]
        return [state_of(result.rows), ""]

    return run


def state_of(rows: Sequence[tuple[Any, ...]]) -> GoldState:
    """Whether a result can tell right from wrong.

    >>> [state_of(rows).value for rows in ([], [(0, None), (0.0, None)], [("",)])]
    ['no rows', 'only NULL or 0', 'telling']
    """
    if not rows:
        return GoldState.EMPTY
    if all(value is None or value == 0 for row in rows for value in row):
        return GoldState.NULL_OR_ZERO
    return GoldState.TELLING


def _check(reply: Reply, question: SQLQuestion) -> GoldCheck:
    match how_it_ended(reply, verifier="gold check", subject=question.gold_sql):
        case None:
            return GoldCheck(GoldState(reply.value[0]), reply.value[1])
        case Outcome.TIMED_OUT:
            return GoldCheck(GoldState.TIMED_OUT, reply.reason)
        case _:
            return GoldCheck(GoldState.FAILED, reply.reason)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A question that became no problem, and why."""

    problem_id: str
    db_id: str
    state: GoldState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLProblems:
    """The problems that are left, and those that are not."""

    problems: list[Problem]
    dropped: list[Dropped]

    def counts(self) -> dict[str, int]:
        """Number of questions dropped for each reason, in the order of GoldState."""
        found = Counter(dropped.state for dropped in self.dropped)
        return {state.value: found[state] for state in GoldState if state in found}


def problems_of_split(
    source: SQLSplit,
    *,
    timeout: float,
    workers: int = 2,
    keep_all: bool = False,
    task: Callable[[str, int, str], AbstractContextManager[Callable[[int, str], None]]],
) -> SQLProblems:
    """The problems of a split, whose gold queries are run where there are databases.

    ``keep_all`` runs none; ``task`` opens a display of progress with a title, a total and a unit.
    """
    prompts = SQLPrompts(databases=source.databases, schemas=schemas_of(source.tables))
    checks, total = None, len(source.questions)
    if source.databases is not None and not keep_all:
        with (
            GoldChecker(databases=source.databases, workers=workers, timeout=timeout) as checker,
            task("gold queries", total, "queries") as advance,
        ):
            checks = checker.check(source.questions, on_done=lambda n: advance(n, ""))
    with task("prompts", total, "questions") as advance:
        made = sql_problems(
            source.questions, prompts=prompts, checks=checks, on_done=lambda: advance(1, "")
        )
    if not made.problems:
        why = ", ".join(f"{reason} {count}" for reason, count in made.counts().items())
        raise DataError(f"no question is left of {total}: {why}")
    return made


def sql_problems(
    questions: Sequence[SQLQuestion],
    *,
    prompts: SQLPrompts,
    checks: Sequence[GoldCheck] | None,
    on_done: Callable[[], None] = lambda: None,
) -> SQLProblems:
    """Problems for the ``sql`` verifier; those whose gold query tells nothing are dropped.

    ``checks`` has one for each question; without it, all are kept. ``on_done`` is called after each
    question.
    """
    problems: list[Problem] = []
    dropped: list[Dropped] = []
    if checks is None:
        checks = [GoldCheck(GoldState.TELLING)] * len(questions)
    for question, check in zip(questions, checks, strict=True):
        if check.state is GoldState.TELLING:
            answer = {
                "gold_sql": question.gold_sql,
                "database": database_file(question.db_id),
                "db_id": question.db_id,
                "question": question.question,
                "evidence": question.evidence,
                "difficulty": question.difficulty,
            }
            prompt = prompts.prompt(question.db_id, question.question, question.evidence)
            known = {field: value for field, value in answer.items() if value}
            made = Problem(problem_id=question.question_id, prompt=prompt, answer=known)
            problems.append(made)
        else:
            dropped.append(Dropped(question.question_id, question.db_id, *check))
        on_done()
    return SQLProblems(problems=problems, dropped=dropped)
