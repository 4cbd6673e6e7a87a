"""Running one untrusted SELECT on a SQLite database that it can only read.

Runs inside a worker process, which the parent kills when a C function of SQLite ignores the
limits here. Every statement gets a new connection, so nothing outlives it.

What holds a statement back, from the outside in: the file is opened with ``mode=ro``;
``query_only``; an authorizer that knows four actions (select, read, recursion, function calls
but for a few); no temporary files (``temp_store``); a time limit through the progress handler;
limits on rows, on the size of a value, on the whole result, and on the memory of the process.
"""

import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Any
from urllib.parse import quote

from dph._processes.workers.handler import BoundedCache, TellStage, limit_address_space
from dph._processes.workers.pool import GOLD_STAGE
from dph.records import Outcome
from dph.tasks.verifiers.sql.rules import SQLRule, sql_rule
from dph.tasks.verifiers.sql.rules.base import Row
from dph.tasks.verifiers.sql.tokens import first_word

_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile"})
_SETUP = ("PRAGMA query_only=ON", "PRAGMA temp_store=MEMORY")
_SIZED = frozenset({str, bytes})
_STEPS_PER_CHECK = 10_000
_FIRST_ROWS, _MOST_ROWS = 16, 256
_BATCH_BYTES = 1_000_000
_CELL_BYTES = 16
_STATEMENTS = ("SELECT", "WITH", "VALUES")
# What SQLite, too, reads over before a statement; U+FEFF is a byte order mark.
_SKIPPED = re.compile(r"(?:[; \t\n\r\f\ufeff]++|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?)*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLLimits:
    """Limits of one statement. ``result_bytes`` counts text, blobs and 16 bytes per cell.

    Of a rule that compares sets of rows, ``rows`` and ``result_bytes`` count each row once.
    """

    seconds: float = 5.0
    rows: int = 1_000_000
    value_bytes: int = 1_000_000
    result_bytes: int = 64_000_000
    sql_bytes: int = 200_000
    memory_bytes: int = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SQLResult:
    """The rows of a statement, and about how many bytes they hold."""

    rows: list[Row]
    size: int


@dataclass(frozen=True, slots=True)
class SQLFailure:
    """Why a statement gave no rows."""

    outcome: Outcome
    reason: str


class _LimitError(Exception):
    """The statement is over one of its limits."""

    def __init__(self, failure: SQLFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def limit_memory(limits: SQLLimits) -> None:
    """Limit this process's memory and, at half of that, SQLite's."""
    limit_address_space(limits.memory_bytes)
    connection = sqlite3.connect(":memory:")
    connection.execute(f"PRAGMA hard_heap_limit={limits.memory_bytes // 2}")
    connection.close()


def execute_sql(
    uri: str,
    sql: str,
    limits: SQLLimits,
    *,
    text_errors: str = "surrogateescape",
    distinct: bool = False,
) -> SQLResult | SQLFailure:
    """Run one SELECT, WITH or VALUES on a fresh, read-only connection to ``database_uri(...)``.

    ``text_errors`` says what becomes of text that is not UTF-8; ``distinct`` keeps the first of
    equal rows only. Nothing is ever written.
    """
    if is_too_long(sql, limits):
        return SQLFailure(Outcome.OVER_LIMIT, f"more than {limits.sql_bytes} bytes of SQL")
    if (keyword := first_word(sql[_start(sql) :])) not in _STATEMENTS:
        got = f"got {keyword}" if keyword else "got none"
        return SQLFailure(Outcome.INVALID, f"only a SELECT or WITH statement may run, {got}")
    deadline = time.monotonic() + limits.seconds
    connection: sqlite3.Connection | None = None
    try:
        connection = _connect(uri, limits, deadline)
        connection.text_factory = lambda text: text.decode("utf-8", text_errors)
        cursor = connection.execute(sql)
        return _fetch(cursor, limits, deadline, distinct=distinct)
    except _LimitError as error:
        return error.failure
    except MemoryError:
        return SQLFailure(Outcome.OVER_LIMIT, "out of memory")
    except sqlite3.Error as error:
        return _failure(error, limits, timed_out=time.monotonic() >= deadline)
    except ValueError as error:  # a NUL character, half of a surrogate pair
        return SQLFailure(Outcome.INVALID, str(error))
    finally:
        if connection is not None:
            connection.close()


def is_too_long(sql: str, limits: SQLLimits) -> bool:
    """True if a statement is longer than SQLite may be given, and not worth looking at."""
    return len(sql) > limits.sql_bytes


def holds_no_statement(sql: str) -> bool:
    """True if SQLite has nothing to run in a text: blanks, comments and semicolons.

    >>> [holds_no_statement(sql) for sql in (" ; -- why", "/* never closed", "SELECT")]
    [True, True, False]
    """
    return _start(sql) == len(sql)


def database_uri(database: Path) -> str:
    """URI that opens a database only for reading, without files next to it for writing."""
    # At rest there is nothing next to the file, and reading a WAL database in any other way than
    # immutable would create files there; with a log, its index is only read, too.
    at_rest = not (Path(f"{database}-journal").exists() or _size(f"{database}-wal"))
    how = "immutable=1" if at_rest else "readonly_shm=1"
    return f"file:{quote(os.fsencode(database))}?mode=ro&{how}"


def why_unreadable(database: Path) -> str:
    """Reason why a database cannot be read without changing files next to it, or ''."""
    if _size(f"{database}-wal") and not Path(f"{database}-shm").exists():
        return "its -wal file cannot be read without a -shm file; open it once for writing"
    return ""


def database_state(database: Path) -> tuple[int, int] | None:
    """Value that changes with the file (time of change, size), or None if it does not exist."""
    try:
        status = database.stat()
    except (OSError, ValueError):  # the latter: a NUL in its name
        return None
    # To open a pipe would wait for its other end.
    return (status.st_mtime_ns, status.st_size) if S_ISREG(status.st_mode) else None


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _connect(uri: str, limits: SQLLimits, deadline: float) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=0)
    for pragma in _SETUP:
        connection.execute(pragma)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, limits.sql_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_authorizer(_authorize)
    connection.set_progress_handler(lambda: time.monotonic() >= deadline, _STEPS_PER_CHECK)
    return connection


def _start(sql: str) -> int:
    skipped = _SKIPPED.match(sql)
    return skipped.end() if skipped else 0


def _fetch(
    cursor: sqlite3.Cursor, limits: SQLLimits, deadline: float, *, distinct: bool
) -> SQLResult:
    rows: list[Row] = []
    seen: set[Row] = set()
    size = 0
    for batch in _batches(cursor, limits, deadline):
        new = [row for row in dict.fromkeys(batch) if row not in seen] if distinct else batch
        if distinct:
            seen.update(new)
        if new:
            rows += new
            size += _bytes(new)
        if len(rows) > limits.rows:
            raise _LimitError(SQLFailure(Outcome.OVER_LIMIT, f"more than {limits.rows} rows"))
        if size > limits.result_bytes:
            reason = f"more than {limits.result_bytes} bytes"
            raise _LimitError(SQLFailure(Outcome.OVER_LIMIT, reason))
    return SQLResult(rows, size)


def _batches(cursor: sqlite3.Cursor, limits: SQLLimits, deadline: float) -> Iterator[list[Row]]:
    """The rows, about a megabyte of them at a time, so that no limit is missed by much."""
    rows = _FIRST_ROWS
    while batch := cursor.fetchmany(rows):
        yield batch
        if len(batch) < rows:
            return
        if time.monotonic() >= deadline:
            raise _LimitError(_late(limits))
        rows = min(max(_BATCH_BYTES * len(batch) // _bytes(batch), 1), _MOST_ROWS)


def _bytes(rows: list[Row]) -> int:
    texts = sum([len(value) for row in rows for value in row if type(value) in _SIZED])
    return _CELL_BYTES * len(rows) * len(rows[0]) + texts


def _late(limits: SQLLimits) -> SQLFailure:
    return SQLFailure(Outcome.TIMED_OUT, f"over {limits.seconds:g} s")


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in _READING:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and str(second).lower() not in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
        # What SQLite asks for to declare a virtual table such as json_each. A statement that
        # really updates it is refused by SQLite itself.
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _failure(error: sqlite3.Error, limits: SQLLimits, *, timed_out: bool) -> SQLFailure:
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_INTERRUPT and timed_out:
        return _late(limits)
    if code == sqlite3.SQLITE_AUTH:
        return SQLFailure(Outcome.INVALID, f"only reading is allowed ({error})")
    # sqlite3 raises a DataError for a value and for a statement that is too long.
    too_much = (sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOMEM)
    if isinstance(error, sqlite3.DataError) or code in too_much:
        return SQLFailure(Outcome.OVER_LIMIT, str(error))
    return SQLFailure(Outcome.INVALID, str(error))


# Rows never leave the worker, so only the verdict has to survive JSON.

# Beyond the time limit of a statement, which the worker keeps itself; then it is killed.
GRACE_SECONDS = 1.0

# To compare that many takes time, which is not the statement's: the time limit starts again.
_MANY_ROWS = 10_000
_REASON_CHARACTERS = 200
_MOST_GOLDS, _GOLD_BYTES = 4096, 128_000_000

_path = lru_cache(maxsize=4096)(Path)


@dataclass(frozen=True, slots=True)
class Gold:
    """Part of a gold result that the rule keeps, its approximate size, and its database."""

    kept: Any
    size: int
    uri: str


class SQLGrader:
    """Grades requests ``{"database", "gold", "sql"}``; answers ``[outcome, reward, reason]``.

    With ``"whole": true`` the statement is all that was answered: NO_ANSWER if it is nothing,
    unless the rule takes that for an empty result and the gold's is empty, too. ``bad_gold`` and
    ``gold_seconds`` are those of dph.tasks.verifiers.base.
    """

    def __init__(self, limits: SQLLimits, rule: SQLRule) -> None:
        self._limits = limits
        self._rule = rule
        self._golds: BoundedCache[tuple[Any, ...], Gold | SQLFailure] = BoundedCache(
            _MOST_GOLDS, most=_GOLD_BYTES, size_of=lambda gold: getattr(gold, "size", 0)
        )

    def __call__(self, request: Mapping[str, Any], stage: TellStage) -> list[Any]:
        """Grade one prediction. ``stage`` tells the parent what is being run."""
        if reason := request.get("bad_gold"):
            return [Outcome.BAD_GOLD, 0.0, reason]
        database = _path(request["database"])
        state = database_state(database)
        if state is None:
            return [Outcome.BAD_GOLD, 0.0, f"there is no database {database}"]
        gold = self._gold(request, database, state, stage)
        if isinstance(gold, SQLFailure):
            failed = f"the gold SQL failed: {gold.outcome}: {_shown(gold.reason)}"
            return [Outcome.BAD_GOLD, 0.0, failed]
        sql = request["sql"]
        if request.get("whole") and not is_too_long(sql, self._limits) and holds_no_statement(sql):
            if self._rule.nothing_is_empty and self._rule.compare([], gold.kept).reward == 1.0:
                return [Outcome.CORRECT, 1.0, ""]
            return [Outcome.NO_ANSWER, 0.0, "no SQL in the answer"]
        predicted = self._run(gold.uri, self._rule.rewrite_prediction(sql))
        if isinstance(predicted, SQLFailure):
            return [predicted.outcome, 0.0, _shown(predicted.reason)]
        if len(predicted.rows) > _MANY_ROWS:
            stage("comparison")
        try:
            result = self._rule.compare(predicted.rows, gold.kept)
        except MemoryError:
            return [Outcome.OVER_LIMIT, 0.0, "out of memory"]
        outcome = Outcome.CORRECT if result.reward == 1.0 else Outcome.WRONG
        return [outcome, result.reward, result.reason]

    def _gold(
        self, request: Mapping[str, Any], database: Path, state: tuple[int, int], stage: TellStage
    ) -> Gold | SQLFailure:
        """The gold's result, run if necessary; a failure that may pass stays in its stage."""
        sql, seconds = request["gold"], request.get("gold_seconds")
        key = (request["database"], state, sql)
        gold = self._golds.get(key)
        if gold is not None and not _may_pass(gold):
            return gold
        stage(GOLD_STAGE, *([seconds + GRACE_SECONDS] if seconds else []))
        if gold is None or seconds:
            gold = self._run_gold(database, sql, seconds or self._limits.seconds)
            self._golds.put(key, gold)
        if not _may_pass(gold):
            stage("prediction")
        return gold

    def _run_gold(self, database: Path, sql: str, seconds: float) -> Gold | SQLFailure:
        if reason := why_unreadable(database):
            return SQLFailure(Outcome.INVALID, reason)
        uri = database_uri(database)
        result = self._run(uri, self._rule.rewrite_gold(sql), seconds)
        if isinstance(result, SQLFailure):
            return result
        try:
            return Gold(self._rule.keep(result.rows, sql), result.size, uri)
        except MemoryError:
            return SQLFailure(Outcome.OVER_LIMIT, "out of memory")

    def _run(self, uri: str, sql: str, seconds: float | None = None) -> SQLResult | SQLFailure:
        limits = replace(self._limits, seconds=seconds) if seconds else self._limits
        errors, distinct = self._rule.text_errors, self._rule.distinct
        return execute_sql(uri, sql, limits, text_errors=errors, distinct=distinct)


def make_sql_grader(options: Mapping[str, Any]) -> SQLGrader:
    """The worker's handler; ``options`` are the fields of SQLLimits and the rule's name."""
    fields = dict(options)
    rule = sql_rule(fields.pop("rule"))
    limits = SQLLimits(**fields)
    limit_memory(limits)
    return SQLGrader(limits, rule)


def _shown(reason: str) -> str:
    """A message of SQLite, which repeats what a statement holds, as one line for people."""
    shown = [c if c.isprintable() else repr(c)[1:-1] for c in reason[:_REASON_CHARACTERS]]
    return "".join(shown)[:_REASON_CHARACTERS]


def _may_pass(gold: Gold | SQLFailure) -> bool:
    """True if a gold exceeded a limit, which might not happen on a less busy machine."""
    limits = (Outcome.TIMED_OUT, Outcome.OVER_LIMIT)
    return isinstance(gold, SQLFailure) and gold.outcome in limits
