"""The SQL verifier: a response is right if its SQL returns the gold's rows, by one of the rules."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dph._processes.workers.pool import GOLD_STAGE, Reply, WorkerPool
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers.base import Gold, GoldJudge, PooledVerifier
from dph.tasks.verifiers.sql.executor import GRACE_SECONDS, SQLLimits, database_state
from dph.tasks.verifiers.sql.extraction import DEFAULT_SOURCES, SQLSource, extract_sql
from dph.tasks.verifiers.sql.rules import sql_rule

# The fingerprint of a directory changes when the content of a database does, when one comes, goes
# or gets another name, and when a write-ahead log or an unfinished transaction is next to one. It
# does not change when the directory is moved, when files are touched, or when other files come or
# go.
#
# Every database is read whole: SQLite counts the changes of a file in its header, but a file that
# was made anew may have the same count and size. What was read is kept by path, size and time of
# change, so that a process reads a file once, however often it asks. Several files are read at a
# time: 33 GB (BIRD's training set) take as long as the disk does.

_MAGIC = b"SQLite format 3\0"
_BESIDE = ("-wal", "-journal")
_THREADS = 8


def databases_fingerprint(directory: Path) -> str:
    """The SHA-256 of the names and contents of all SQLite files below a directory."""
    files = sorted(_files(directory))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="dph-databases") as threads:
        digests = list(threads.map(_digest, files))
    pairs = zip(files, digests, strict=True)
    held = {file.relative_to(directory).as_posix(): digest for file, digest in pairs if digest}
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


def _files(directory: Path) -> Iterator[Path]:
    """All files below a directory; links are followed, each directory once."""
    seen: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(directory, followlinks=True):
        status = os.stat(folder)  # noqa: PTH116 - a path of os.walk
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        folders.sort()
        seen.add((status.st_dev, status.st_ino))
        yield from (path for name in names if (path := Path(folder, name)).is_file())


def _digest(file: Path) -> str:
    status = file.stat()
    return _read(str(file), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=65536)
def _read(path: str, size: int, _changed: int) -> str:
    """The SHA-256 of a database or of a file that belongs to it; '' for any other file."""
    if not size:
        return ""
    with Path(path).open("rb") as file:
        if not path.endswith(_BESIDE) and file.read(len(_MAGIC)) != _MAGIC:
            return ""
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


_NO_SQL = Verdict(outcome=Outcome.NO_ANSWER, reward=0.0, reason="no SQL in the response")


@dataclass(frozen=True, slots=True)
class SQLPair:
    """A predicted statement, the gold statement, and the path of their database.

    ``whole`` says that ``predicted`` is all that was answered: if it is nothing at all, the
    verdict is NO_ANSWER, or what the official evaluator of the rule makes of it.
    """

    database: str
    gold: str
    predicted: str
    whole: bool = False


class SQLVerifier(PooledVerifier[SQLPair]):
    """Runs the gold and the response's SQL on a read-only database in a worker process.

    A problem's answer has ``gold_sql`` and ``database``, the path of the SQLite file.

    Args:
        databases: where relative paths start; by default the current directory.
        rule: when two results are equal; a name of dph.tasks.verifiers.sql.rules.RULES.
        sources: where a statement is looked for in a response, in this order.
        workers: number of worker processes.
        timeout: seconds for one statement.
        limits: the other limits of a statement; its ``seconds`` are ``timeout``.

    Raises:
        SettingsError: ``rule`` is unknown, or ``workers`` or ``timeout`` is out of range.
    """

    name = "sql"
    _handler = "dph.tasks.verifiers.sql.executor:make_sql_grader"

    def __init__(
        self,
        *,
        databases: Path | None = None,
        rule: str = "bird",
        sources: Sequence[SQLSource] = DEFAULT_SOURCES,
        workers: int = 1,
        timeout: float = 5.0,
        limits: SQLLimits | None = None,
    ) -> None:
        if not 0 < timeout < 1e6:
            raise SettingsError(f"timeout must be a positive number of seconds, got {timeout}")
        self.rule = sql_rule(rule).name
        self.version = f"3 ({rule})"
        self._databases = (databases or Path()).absolute()
        self._has_directory = databases is not None
        self._limits = replace(limits or SQLLimits(), seconds=timeout)
        self._sources = tuple(sources)
        self._pool = WorkerPool(
            handler=self._handler,
            options=asdict(self._limits) | {"rule": rule},
            workers=workers,
            timeout=timeout + GRACE_SECONDS,
            shared_stage=GOLD_STAGE,
        )
        self._judge = GoldJudge(self._pool, seconds=timeout)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The limits of a statement, where SQL is looked for, and what the databases hold.

        ``databases`` is a fingerprint of all databases below the directory ``databases``: the
        same wherever that is. It is made when it is asked for, and a file that has not changed
        is read once in a process. Without that directory it is '': the paths in the problems are
        all that is known of their databases.
        """
        databases = databases_fingerprint(self._databases) if self._has_directory else ""
        return {**self.own_settings, "databases": databases}

    @property
    def own_settings(self) -> Mapping[str, Any]:
        """The settings but for the databases: the rule, the limits, where SQL is looked for."""
        limits = {name: value for name, value in asdict(self._limits).items() if name != "seconds"}
        return {
            "rule": self.rule,
            "sources": [str(source) for source in self._sources],
            "timeout": float(self._limits.seconds),
            "limits": limits,
        }

    silent_golds = ({"gold_sql": "SELECT NULL"}, {"gold_sql": "SELECT NULL WHERE 0"})

    def gold_of(self, response: str) -> Gold | None:
        """The statement in an answer."""
        found = extract_sql(response, self._sources)
        return None if found is None else {"gold_sql": found.statement}

    def _pair(self, problem: Problem, response: str) -> SQLPair | Verdict:
        gold, database = _answer(problem, "gold_sql"), _answer(problem, "database")
        found = extract_sql(response, self._sources)
        return SQLPair(database, gold, found.statement) if found else _NO_SQL

    def _replies(self, pairs: list[SQLPair]) -> list[Reply]:
        paths = {name: self._databases / name for name in {pair.database for pair in pairs}}
        # The verdict on a gold holds as long as its database stays as it is.
        states = {name: database_state(path) for name, path in paths.items()}
        requests = [
            {
                "database": str(paths[pair.database]),
                "gold": pair.gold,
                "sql": pair.predicted,
                "whole": pair.whole,
            }
            for pair in pairs
        ]
        golds = [(pair.database, states[pair.database], pair.gold) for pair in pairs]
        return self._judge.run(requests, golds=golds)

    def _subject(self, pair: SQLPair) -> str:
        return pair.predicted


def _answer(problem: Problem, field: str) -> str:
    value = problem.answer.get(field)
    if not isinstance(value, str) or not value:
        raise DataError(
            f"the sql verifier needs a text {field!r} in problem {problem.problem_id!r}, "
            f"got {value!r}; its fields are {sorted(problem.answer)}"
        )
    return value
