"""The child's side of the SQL verifier: run gold and prediction, compare, answer with a verdict.

Rows never leave the process, so nothing has to survive JSON but the verdict.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dph._processes.workers.handler import BoundedCache, TellStage
from dph._processes.workers.pool import GOLD_STAGE
from dph.records import Outcome
from dph.tasks.verifiers.sql.executor import (
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
from dph.tasks.verifiers.sql.rules import SQLRule, sql_rule

PREDICTION_STAGE = "prediction"
COMPARISON_STAGE = "comparison"

# Beyond the time limit of a statement, which the worker keeps itself; then it is killed.
GRACE_SECONDS = 1.0

# To compare that many takes time, which is not the statement's: the time limit starts again.
_MANY_ROWS = 10_000
_REASON_CHARACTERS = 200
_MOST_GOLDS, _GOLD_BYTES = 4096, 128_000_000

_path = lru_cache(maxsize=4096)(Path)

GoldKey = tuple[str, tuple[int, int], str]


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
        self._golds: BoundedCache[GoldKey, Gold | SQLFailure] = BoundedCache(
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
            stage(COMPARISON_STAGE)
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
        if seconds:
            stage(GOLD_STAGE, seconds + GRACE_SECONDS)
        else:
            stage(GOLD_STAGE)
        if gold is None or seconds:
            gold = self._run_gold(database, sql, seconds or self._limits.seconds)
            self._golds.put(key, gold)
        if not _may_pass(gold):
            stage(PREDICTION_STAGE)
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
        return execute_sql(
            uri,
            sql,
            replace(self._limits, seconds=seconds) if seconds else self._limits,
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


def _shown(reason: str) -> str:
    """A message of SQLite, which repeats what a statement holds, as one line for people."""
    shown = [c if c.isprintable() else repr(c)[1:-1] for c in reason[:_REASON_CHARACTERS]]
    return "".join(shown)[:_REASON_CHARACTERS]


def _may_pass(gold: Gold | SQLFailure) -> bool:
    """Whether a gold failed by a limit, which on a less busy machine it might not."""
    limits = (Outcome.TIMED_OUT, Outcome.OVER_LIMIT)
    return isinstance(gold, SQLFailure) and gold.outcome in limits
