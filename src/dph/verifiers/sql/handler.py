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
from dph.verifiers.sql.executor import (
    SQLFailure,
    SQLLimits,
    SQLResult,
    database_state,
    database_uri,
    execute_sql,
    holds_no_statement,
    is_too_long,
    limit_memory,
    why_unreadable,
)
from dph.verifiers.sql.rules import SQLRule, sql_rule

GOLD_STAGE = "gold"
PREDICTION_STAGE = "prediction"
COMPARISON_STAGE = "comparison"

# To compare that many takes time, which is not the statement's: the time limit starts again.
_MANY_ROWS = 10_000

_path = lru_cache(maxsize=4096)(Path)

Stage = Callable[[str], None]
GoldKey = tuple[str, tuple[int, int], str]


@dataclass(frozen=True, slots=True)
class Gold:
    """What the rule keeps of a gold result, about how big it is, and where it was run."""

    kept: Any
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
    """Grades requests ``{"database", "gold", "sql"}``; answers ``[outcome, reward, reason]``.

    With ``"whole": true`` the statement is all that was answered: NO_ANSWER if it is nothing,
    unless the rule takes that for an empty result and the gold's is empty, too.
    """

    def __init__(self, limits: SQLLimits, rule: SQLRule) -> None:
        self._limits = limits
        self._rule = rule
        self._golds = GoldCache()

    def __call__(self, request: Mapping[str, Any], stage: Stage) -> list[Any]:
        """Grade one prediction. ``stage`` tells the parent what is being run."""
        database = _path(request["database"])
        state = database_state(database)
        if state is None:
            return [Outcome.BAD_GOLD, 0.0, f"there is no database {database}"]
        key = (request["database"], state, request["gold"])
        gold = self._golds.get(key)
        if gold is None:
            stage(GOLD_STAGE)
            gold = self._run_gold(database, request["gold"])
            self._golds.put(key, gold)
            stage(PREDICTION_STAGE)
        if isinstance(gold, SQLFailure):
            return [Outcome.BAD_GOLD, 0.0, f"the gold SQL failed: {gold.outcome}: {gold.reason}"]
        if request.get("whole") and self._is_nothing(request["sql"]):
            return self._grade_nothing(gold)
        predicted = self._run(gold.uri, self._rule.rewrite_prediction(request["sql"]))
        if isinstance(predicted, SQLFailure):
            return [predicted.outcome, 0.0, predicted.reason]
        if len(predicted.rows) > _MANY_ROWS:
            stage(COMPARISON_STAGE)
        try:
            result = self._rule.compare(predicted.rows, gold.kept)
        except MemoryError:
            return [Outcome.OVER_LIMIT, 0.0, "out of memory"]
        outcome = Outcome.CORRECT if result.reward == 1.0 else Outcome.WRONG
        return [outcome, result.reward, result.reason]

    def _is_nothing(self, sql: str) -> bool:
        return not is_too_long(sql, self._limits) and holds_no_statement(sql)

    def _grade_nothing(self, gold: Gold) -> list[Any]:
        if self._rule.nothing_is_empty and self._rule.compare([], gold.kept).reward == 1.0:
            return [Outcome.CORRECT, 1.0, ""]
        return [Outcome.NO_ANSWER, 0.0, "no SQL in the answer"]

    def _run_gold(self, database: Path, sql: str) -> Gold | SQLFailure:
        if reason := why_unreadable(database):
            return SQLFailure(Outcome.INVALID, reason)
        uri = database_uri(database)
        result = self._run(uri, self._rule.rewrite_gold(sql))
        if isinstance(result, SQLFailure):
            return result
        try:
            return Gold(self._rule.keep(result.rows, sql), result.size, uri)
        except MemoryError:
            return SQLFailure(Outcome.OVER_LIMIT, "out of memory")

    def _run(self, uri: str, sql: str) -> SQLResult | SQLFailure:
        return execute_sql(
            uri,
            sql,
            self._limits,
            text_errors=self._rule.text_errors,
            distinct=self._rule.distinct,
        )


def make_sql_grader(options: Mapping[str, Any]) -> SQLGrader:
    """The worker's handler; ``options`` are the fields of SQLLimits and the rule's name."""
    fields = dict(options)
    rule = sql_rule(fields.pop("rule"))
    limits = SQLLimits(**fields)
    limit_memory(limits)
    return SQLGrader(limits, rule)


def _size(gold: Gold | SQLFailure) -> int:
    return gold.size if isinstance(gold, Gold) else 0
