"""Spider and BIRD from their official files or from parquet: questions, databases and schemas."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from dph._base.files import read_json
from dph._base.files.rows import read_rows
from dph._processes.workers.handler import Handler, TellStage
from dph._processes.workers.pool import PoolOwner, WorkerPool, how_it_ended
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem
from dph.tasks.sql.prompt import SQLPrompts, database_file
from dph.tasks.sql.schema import Column, ForeignKey, Schema, SchemaTable, read_tables
from dph.tasks.verifiers.sql.executor import (
    SQLFailure,
    SQLLimits,
    database_uri,
    execute_sql,
    limit_memory,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLQuestion:
    """A question on a database; ``evidence`` is the knowledge that BIRD gives along with it."""

    question_id: str
    db_id: str
    question: str
    gold_sql: str
    evidence: str = ""
    difficulty: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLSplit:
    """Paths of a split's questions, schemas and databases; None where there are none."""

    questions: list[SQLQuestion]
    databases: Path | None
    tables: Path | None


def published_rows(path: Path) -> list[Mapping[str, Any]]:
    """The rows of a ``.json`` (a list of objects) or ``.parquet`` file."""
    rows = read_json(path) if path.suffix == ".json" else [row for _, row in read_rows(path)]
    if not rows or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path} does not hold a list of questions")
    return rows


def to_questions(
    path: Path, *, prefix: str, gold_field: str, number_field: str, start: int = 0
) -> list[SQLQuestion]:
    """The questions of a ``.json`` or ``.parquet`` file, with ids ``<prefix>-<number>``.

    ``gold_field`` holds the gold SQL of a JSON file; a parquet file has ``gold_sql``. Without
    ``number_field`` the number is the position in the file, from ``start``.
    """
    gold = gold_field if path.suffix == ".json" else "gold_sql"
    found: dict[str, SQLQuestion] = {}
    for place, row in enumerate(published_rows(path), start):
        where, number = f"{path}, question {place}", row.get(number_field, place)
        question = _question(row, where, f"{prefix}-{number}", gold)
        if question.question_id in found:
            raise DataError(f"{where}: {number_field} {number!r} was used before")
        found[question.question_id] = question
    return list(found.values())


def first_that_exists(
    directory: Path, names: tuple[str, ...], *, test: Callable[[Path], bool] = Path.is_file
) -> Path | None:
    """The first of ``names`` in ``directory`` that is there."""
    return next((directory / name for name in names if test(directory / name)), None)


def require_layout(directory: Path, names: tuple[str, ...], what: str) -> Path:
    """The first of ``names`` in ``directory`` that is there."""
    if not directory.is_dir():
        raise DataError(f"there is no directory {directory}")
    found = first_that_exists(directory, names)
    if found is None:
        raise DataError(f"{directory} holds no {what}: looked for {', '.join(names)}")
    return found


def _question(row: Mapping[str, Any], place: str, question_id: str, gold: str) -> SQLQuestion:
    for field in ("db_id", "question", gold):
        if not isinstance(row.get(field), str) or not row[field].strip():
            raise DataError(f"{place}: {field!r} must be text, got {row.get(field)!r:.80}")
    if Path(row["db_id"]).name != row["db_id"]:
        raise DataError(f"{place}: 'db_id' must be the name of a database, got {row['db_id']!r}")
    evidence = row.get("evidence") or ""
    if not isinstance(evidence, str):
        raise DataError(f"{place}: 'evidence' must be text, got {evidence!r:.80}")
    return SQLQuestion(
        question_id=question_id,
        db_id=row["db_id"],
        question=row["question"],
        gold_sql=row[gold],
        evidence=evidence,
        difficulty=row.get("difficulty"),
    )


# Files of Spider 1.0 (Yu et al. 2018, arXiv:1809.08887). Official: ``train_spider.json``,
# ``train_others.json``, ``dev.json``, ``tables.json`` and the directory ``database/``. Parquet:
# ``train.parquet``, ``dev.parquet`` (``id``, ``db_id``, ``question``, ``gold_sql``).

_SPIDER = {"train": ("train_spider.json", "train.parquet"), "dev": ("dev.json", "dev.parquet")}
SPIDER_SPLITS = tuple(_SPIDER)


def load_spider(directory: Path, split: str) -> SQLSplit:
    """The questions of a split, with ids ``spider-train-0``, ``spider-dev-0`` and so on.

    The official training set is ``train_spider.json`` and after it ``train_others.json``, where
    it is there.

    Raises:
        SettingsError: there is no such split.
        DataError: the directory holds neither layout, or a row lacks a field.
    """
    if split not in SPIDER_SPLITS:
        raise SettingsError(f"Spider's splits are {', '.join(SPIDER_SPLITS)}, got {split!r}")
    file = require_layout(directory, _SPIDER[split], f"questions of Spider's {split} set")
    prefix = f"spider-{split}"
    questions = to_questions(file, prefix=prefix, gold_field="query", number_field="id")
    others = directory / "train_others.json"
    if file.name == "train_spider.json" and others.is_file():
        questions += to_questions(
            others, prefix=prefix, gold_field="query", number_field="id", start=len(questions)
        )
    databases = first_that_exists(directory, ("database",), test=Path.is_dir)
    tables = first_that_exists(directory, ("tables.json",))
    return SQLSplit(questions=questions, databases=databases, tables=tables)


# Files of BIRD (Li et al. 2023, arXiv:2305.03111). Official: ``train.json``, ``dev.json`` or
# ``mini_dev_sqlite.json`` (question, evidence, db_id, SQL, and where there are any question_id and
# difficulty), ``train_tables.json`` or ``dev_tables.json``, ``train_databases/`` or
# ``dev_databases/``. Parquet: ``dev.parquet``, ``mini_dev.parquet`` (gold_sql for SQL), and
# ``dev_schema.parquet``, one row a column, for prompts where the databases are not at hand.

_BIRD_SCHEMAS = ("dev_tables.json", "dev_schema.parquet")
_BIRD = {  # files of the questions, the directory of databases, files of the schemas
    "train": (("train.json", "train.parquet"), "train_databases", ("train_tables.json",)),
    "dev": (("dev.json", "dev.parquet"), "dev_databases", _BIRD_SCHEMAS),
    "mini-dev": (("mini_dev_sqlite.json", "mini_dev.parquet"), "dev_databases", _BIRD_SCHEMAS),
}
BIRD_SPLITS = tuple(_BIRD)
_EXAMPLES_SHOWN = 2


def load_bird(directory: Path, split: str) -> SQLSplit:
    """The questions of a split, with ids ``bird-dev-0`` and so on, by BIRD's own numbers.

    Raises:
        SettingsError: there is no such split.
        DataError: the directory holds neither layout, or a row lacks a field.
    """
    if split not in BIRD_SPLITS:
        raise SettingsError(f"BIRD's splits are {', '.join(BIRD_SPLITS)}, got {split!r}")
    files, databases, tables = _BIRD[split]
    file = require_layout(directory, files, f"questions of BIRD's {split} set")
    prefix, number = f"bird-{split}", "question_id"
    return SQLSplit(
        questions=to_questions(file, prefix=prefix, gold_field="SQL", number_field=number),
        databases=first_that_exists(directory, (databases,), test=Path.is_dir),
        tables=first_that_exists(directory, tables),
    )


SQL_SETS = {"spider": load_spider, "bird": load_bird}


def read_schema_rows(path: Path) -> dict[str, Schema]:
    """The schemas of a ``dev_schema.parquet``, with example values, by database."""
    rows = published_rows(path)
    try:
        return {
            db_id: Schema(
                db_id=db_id,
                tables=tuple(
                    _table(name, list(columns))
                    for name, columns in groupby(of_database, key=lambda row: row["table"])
                    if not name.startswith("sqlite_")
                ),
            )
            for db_id, of_database in groupby(rows, key=lambda row: row["db_id"])
        }
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: not a table of columns ({type(error).__name__}: {error})"
        ) from error


def _table(name: str, rows: Iterable[Mapping[str, Any]]) -> SchemaTable:
    columns = sorted(rows, key=lambda row: row["position"])
    return SchemaTable(
        name=name,
        columns=tuple(
            Column(
                name=row["column"],
                kind=row["type"],
                comment=row["description"] or "",
                values=tuple(json.loads(row["value_samples"] or "[]")[:_EXAMPLES_SHOWN]),
            )
            for row in columns
        ),
        primary_key=tuple(row["column"] for row in columns if row["primary_key"]),
        foreign_keys=tuple(
            ForeignKey(
                column=row["column"],
                target_table=key["target_table"],
                # Left out, it is the key of the other table, by the same name as a rule.
                target_column=key["target_column"] or row["column"],
            )
            for row in columns
            for key in json.loads(row["foreign_keys"] or "[]")
        ),
    )


def schemas_of(tables: Path | None) -> dict[str, Schema]:
    """The schemas in a ``tables.json`` or a parquet file of columns; none without a file."""
    if tables is None:
        return {}
    return read_schema_rows(tables) if tables.suffix == ".parquet" else read_tables(tables)


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


class GoldChecker(PoolOwner):
    """Runs gold queries in worker processes that are killed when they take too long.

    ``databases`` holds ``<db_id>/<db_id>.sqlite``; ``timeout`` are the seconds of one query.
    """

    def __init__(self, *, databases: Path, workers: int = 1, timeout: float = 5.0) -> None:
        self._databases = databases.absolute()
        self._pool = WorkerPool(
            handler="dph.tasks.sql.data_sets:make_gold_runner",
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
            files = [str(self._databases / database_file(q.db_id)) for q in asked]
            pairs = zip(files, asked, strict=True)
            replies = self._pool.run([{"database": file, "sql": q.gold_sql} for file, q in pairs])
            for reply, question in zip(replies, asked, strict=True):
                match how_it_ended(reply, verifier="gold check", subject=question.gold_sql):
                    case None:
                        checks.append(GoldCheck(GoldState(reply.value[0]), reply.value[1]))
                    case Outcome.TIMED_OUT:
                        checks.append(GoldCheck(GoldState.TIMED_OUT, reply.reason))
                    case _:
                        checks.append(GoldCheck(GoldState.FAILED, reply.reason))
            on_done(len(replies))
        return checks


def make_gold_runner(options: Mapping[str, Any]) -> Handler:
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
    """True if a result can tell right from wrong.

    >>> state_of([]).value, state_of([(0, None), (0.0, None)]).value, state_of([("",)]).value
    ('no rows', 'only NULL or 0', 'telling')
    """
    if not rows:
        return GoldState.EMPTY
    if all(value is None or value == 0 for row in rows for value in row):
        return GoldState.NULL_OR_ZERO
    return GoldState.TELLING


@dataclass(frozen=True, slots=True)
class DroppedQuestion:
    """A question that became no problem, and why."""

    problem_id: str
    db_id: str
    state: GoldState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLProblems:
    """The problems that are left, and those that are not."""

    problems: list[Problem]
    dropped: list[DroppedQuestion]

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
    dropped: list[DroppedQuestion] = []
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
            dropped.append(DroppedQuestion(question.question_id, question.db_id, *check))
        on_done()
    return SQLProblems(problems=problems, dropped=dropped)
