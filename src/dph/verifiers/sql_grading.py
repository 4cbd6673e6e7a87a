"""The child's side of the SQL verifier: run gold and prediction, compare, answer with a verdict.

Rows never leave the process, so nothing has to survive JSON but the verdict.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dph.records import Outcome
from dph.verifiers.sql_executor import (
    Row,
    SQLFailure,
    SQLLimits,
    SQLResult,
    database_state,
    database_uri,
    execute_sql,
    limit_memory,
)

GOLD_STAGE = "gold"
PREDICTION_STAGE = "prediction"

_path = lru_cache(maxsize=4096)(Path)

Stage = Callable[[str], None]
GoldKey = tuple[str, tuple[int, int], str]


@dataclass(frozen=True, slots=True)
class Gold:
    """The distinct rows that a gold statement returned, and where it was run."""

    rows: frozenset[Row]
    size: int
    uri: str


class GoldCache:
    """Gold results, least recently used first out, bounded by their number and their bytes."""

    def __init__(self, *, entries: int = 4096, size: int = 128_000_000) -> None:
        self._golds: OrderedDict[GoldKey, Gold | SQLFailure] = OrderedDict()
        self._entries = entries
        self._free = size

    def get(self, key: GoldKey) -> Gold | SQLFailure | None:
        """The result kept under ``key``, now the most recently used, or None."""
        if key in self._golds:
            self._golds.move_to_end(key)
        return self._golds.get(key)

    def put(self, key: GoldKey, gold: Gold | SQLFailure) -> None:
        """Keep ``gold`` and drop the oldest until the rest fits."""
        self._golds[key] = gold
        self._free -= _size(gold)
        while self._golds and (self._free < 0 or len(self._golds) > self._entries):
            self._free += _size(self._golds.popitem(last=False)[1])

    def __len__(self) -> int:
        return len(self._golds)


class SQLGrader:
    """Grades requests ``{"database", "gold", "sql"}``; answers ``[outcome, reason]``."""

    def __init__(self, limits: SQLLimits) -> None:
        self._limits = limits
        self._golds = GoldCache()

    def __call__(self, request: Mapping[str, str], stage: Stage) -> list[str]:
        """Grade one prediction. ``stage`` tells the parent what is being run."""
        database = _path(request["database"])
        state = database_state(database)
        if state is None:
            return [Outcome.BAD_GOLD, f"there is no database {database}"]
        key = (request["database"], state, request["gold"])
        gold = self._golds.get(key)
        if gold is None:
            stage(GOLD_STAGE)
            gold = self._run_gold(database, request["gold"])
            self._golds.put(key, gold)
            stage(PREDICTION_STAGE)
        if isinstance(gold, SQLFailure):
            return [Outcome.BAD_GOLD, f"the gold SQL failed: {gold.outcome}: {gold.reason}"]
        predicted = execute_sql(gold.uri, request["sql"], self._limits)
        if isinstance(predicted, SQLFailure):
            return [predicted.outcome, predicted.reason]
        return _compare(predicted, gold)

    def _run_gold(self, database: Path, sql: str) -> Gold | SQLFailure:
        uri = database_uri(database)
        result = execute_sql(uri, sql, self._limits)
        if isinstance(result, SQLFailure):
            return result
        rows = _distinct(result)
        return rows if isinstance(rows, SQLFailure) else Gold(rows, result.size, uri)


def make_sql_grader(options: Mapping[str, Any]) -> SQLGrader:
    """The worker's handler; ``options`` are the fields of SQLLimits."""
    limits = SQLLimits(**options)
    limit_memory(limits)
    return SQLGrader(limits)


def _compare(predicted: SQLResult, gold: Gold) -> list[str]:
    """BIRD's execution match: the same set of rows, columns in the same order."""
    rows = _distinct(predicted)
    if isinstance(rows, SQLFailure):
        return [rows.outcome, rows.reason]
    if rows == gold.rows:
        return [Outcome.CORRECT, ""]
    return [Outcome.WRONG, f"{len(rows)} distinct rows, the gold has {len(gold.rows)}"]


def _distinct(result: SQLResult) -> frozenset[Row] | SQLFailure:
    try:
        return frozenset(result.rows)
    except MemoryError:
        return SQLFailure(Outcome.OVER_LIMIT, "out of memory")


def _size(gold: Gold | SQLFailure) -> int:
    return gold.size if isinstance(gold, Gold) else 0
