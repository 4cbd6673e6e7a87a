"""Questions about a database with their SQL: kept if the query returns something that tells.

In this order an answer is dropped for

* what cannot be read: ``question``, ``query``;
* ``fails``: the query does not run on the database;
* ``empty``: it returns no row;
* ``weak``: it has no mutant (a query that is wrong in one place), or more than ``survivors`` of
  them return the same rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dph.corpus.synth.draft import DraftOutcome
from dph.corpus.synth.hard_coded import spread
from dph.records import Outcome
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier

_FENCE = re.compile(r"```[ \t]*\w*[^\n`]*\n(.*?)```", re.DOTALL)
_MARK = re.compile(r"^\W*question\W*", re.IGNORECASE)
_EMPTY = "SELECT NULL WHERE 0"
MOST_MUTANTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question about a database and the query that answers it."""

    question: str
    query: str
    database: str


class QueryJudge:
    """Judges answers by running their queries on the databases, which can only be read.

    Args:
        verifier: what compares the rows of two queries.
        survivors: the largest share of mutants that may return the same rows.
    """

    def __init__(self, verifier: SQLVerifier, *, survivors: float = 0.5) -> None:
        self._verifier, self._survivors = verifier, survivors

    def __call__(
        self, answers: Sequence[str], databases: Sequence[str]
    ) -> list[DraftOutcome[Query]]:
        """Outcome of each answer about its database."""
        found = [_read(*each) for each in zip(answers, databases, strict=True)]
        wrong = [query_mutants(one.draft.query) if one.draft else [] for one in found]
        pairs: list[SQLPair] = []
        for one, queries in zip(found, wrong, strict=True):
            if one.draft is not None:
                draft = one.draft
                pairs += [
                    SQLPair(draft.database, draft.query, predicted)
                    for predicted in (draft.query, _EMPTY, *queries)
                ]
        verdicts = iter([one.verdict for one in self._verifier.judge(pairs)])
        judged = []
        for one, queries in zip(found, wrong, strict=True):
            if one.draft is not None:
                itself, empty = next(verdicts), next(verdicts)
                alive = sum(next(verdicts).outcome == Outcome.CORRECT for _ in queries)
                if itself.outcome != Outcome.CORRECT:
                    reason, note = "fails", f"{itself.outcome}: {itself.reason}"
                elif empty.outcome == Outcome.CORRECT:
                    reason, note = "empty", "the query returns no row"
                else:
                    reason, note = self._weakness(alive, len(queries))
                one = DraftOutcome(
                    draft=one.draft,
                    reason=reason,
                    note=note,
                    killed=len(queries) - alive,
                    mutants=len(queries),
                )
            judged.append(one)
        return judged

    def _weakness(self, alive: int, count: int) -> tuple[str, str]:
        if not count or alive > self._survivors * count:
            return "weak", f"{alive} of {count} wrong queries return the same"
        return "", ""


def query_mutants(query: str, *, most: int = MOST_MUTANTS) -> list[str]:
    """At most ``most`` queries that differ from ``query`` in one place; none if it does not parse.

    >>> query_mutants("SELECT a FROM t WHERE b > 3")
    ['SELECT a FROM t', 'SELECT a FROM t WHERE b <= 3', 'SELECT a FROM t WHERE b > 4']
    """
    sqlglot = import_module("sqlglot")
    try:
        tree = sqlglot.parse_one(query, read="sqlite")
    except sqlglot.errors.SqlglotError:
        return []
    original = tree.sql(dialect="sqlite")
    found: dict[str, None] = {}
    for place, node in enumerate(tree.walk()):
        if not _can_change(node):
            continue
        copied = tree.copy()
        chosen = list(copied.walk())[place]
        other = _changed(chosen)
        if chosen is copied:
            copied = other
        elif other is None:
            chosen.pop()
        else:
            chosen.replace(other)
        if (text := copied.sql(dialect="sqlite")) != original:
            found.setdefault(text)
    return spread(list(found), most)


def _can_change(node: Any) -> bool:
    exp = import_module("sqlglot").exp
    if isinstance(node, exp.Count):
        return not isinstance(node.this, exp.Distinct)
    removable = (exp.Where, exp.Having, exp.Distinct)
    return isinstance(node, (exp.Literal, exp.Ordered, *removable)) or type(node) in _opposites(exp)


def _changed(node: Any) -> Any:
    """The node as another one; None: without it."""
    exp = import_module("sqlglot").exp
    opposites = _opposites(exp)
    if type(node) in opposites:
        return opposites[type(node)](**node.args)
    match node:
        case exp.Literal() if node.is_string:
            return exp.Literal.string(f"{node.this}x")
        case exp.Literal():
            return exp.Literal.number(_more(node.this))
        case exp.Ordered():
            return exp.Ordered(**node.args | {"desc": not node.args.get("desc")})
        case exp.Count():
            return exp.Max(this=exp.Literal.number(1))
        case _:
            return None


def _opposites(exp: Any) -> dict[Any, Any]:
    there = {exp.GT: exp.LTE, exp.GTE: exp.LT, exp.EQ: exp.NEQ, exp.And: exp.Or, exp.Max: exp.Min}
    return (
        there
        | {other: one for one, other in there.items()}
        | {exp.Avg: exp.Max, exp.Sum: exp.Avg, exp.Intersect: exp.Union, exp.Except: exp.Intersect}
    )


def _more(number: str) -> str:
    return str(int(number) + 1) if number.isdecimal() else f"{float(number) + 1}"


def _read(answer: str, database: str) -> DraftOutcome[Query]:
    block = _FENCE.search(answer)
    if block is None or not block[1].strip():
        return DraftOutcome(draft=None, reason="query", note="no block of SQL")
    question = _MARK.sub("", answer[: block.start()].strip()).strip()
    if not question:
        return DraftOutcome(draft=None, reason="question", note="nothing stands before the query")
    query = block[1].strip().rstrip(";").strip()
    return DraftOutcome(draft=Query(question=question, query=query, database=database))
