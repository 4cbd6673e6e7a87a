"""Drafts of functions and of queries: kept if they hold, mean something, and tell."""

import ast
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dph.records import Outcome
from dph.tasks.verifiers.code.task import CodeTask
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier
from dph_corpus.synth.draft import Draft, DraftOutcome, NoDraft, parsed, read_draft
from dph_corpus.synth.hard_coded import (
    MOST_TRIED,
    PROBED,
    mutants,
    probe,
    spells_out_its_tests,
    spread,
    stubs,
    wanted_values,
)
from dph_corpus.synth.seeds import PURE_MODULES, impurity

MOST_FUNCTION_MUTANTS = 12
_AGAIN = 2
"""Number of times that a program must pass its tests."""


class FunctionJudge:
    """Judges answers by running them."""

    def __init__(
        self,
        verifier: CodeVerifier,
        *,
        survivors: float = 0.5,
        modules: Collection[str] = PURE_MODULES,
    ) -> None:
        self._verifier, self._survivors, self._modules = verifier, survivors, modules

    def __call__(self, answers: Sequence[str], uses: Sequence[str]) -> list[DraftOutcome[Draft]]:
        """Outcome of each answer; each must call the name of ``uses`` ('': anything)."""
        found = [self._read(answer, name) for answer, name in zip(answers, uses, strict=True)]
        found = self._where_kept(found, self._run)
        return self._where_kept(found, self._test_tests)

    def _where_kept(
        self,
        found: list[DraftOutcome[Draft]],
        judge: Callable[[Sequence[Draft]], list[DraftOutcome[Draft]]],
    ) -> list[DraftOutcome[Draft]]:
        kept = {p: one.draft for p, one in enumerate(found) if one.draft and not one.reason}
        for place, one in zip(kept, judge(list(kept.values())), strict=True):
            found[place] = one
        return found

    def _read(self, answer: str, uses: str) -> DraftOutcome[Draft]:
        try:
            draft = read_draft(answer)
        except NoDraft as error:
            reason, _, note = str(error).partition(": ")
            return DraftOutcome(draft=None, reason=reason, note=note)
        tree = parsed(draft.program)
        assert tree is not None
        if found := impurity(tree, modules=self._modules):
            return DraftOutcome(draft=draft, reason="impure", note=found)
        if uses and not _calls(tree, uses):
            return DraftOutcome(draft=draft, reason="unused", note=f"does not call {uses}")
        if spells_out_its_tests(draft):
            return DraftOutcome(
                draft=draft, reason="hard_coded", note="holds its tests as constants"
            )
        if wanted_values(draft) < 2:
            return DraftOutcome(draft=draft, reason="weak", note="all tests expect the same value")
        return DraftOutcome(draft=draft)

    def _run(self, drafts: Sequence[Draft]) -> list[DraftOutcome[Draft]]:
        pairs = [_pair(draft, draft.program) for draft in drafts for _ in range(_AGAIN)]
        verdicts = iter([one.verdict for one in self._verifier.judge(pairs)])
        judged = []
        for draft in drafts:
            failed = [v for _ in range(_AGAIN) if (v := next(verdicts)).outcome != Outcome.CORRECT]
            if failed:
                note = f"{failed[0].outcome}: {failed[0].reason}"
                judged.append(DraftOutcome(draft=draft, reason="fails", note=note))
            else:
                judged.append(DraftOutcome(draft=draft))
        return judged

    def _test_tests(self, drafts: Sequence[Draft]) -> list[DraftOutcome[Draft]]:
        wrong = [mutants(draft.program, most=MOST_FUNCTION_MUTANTS) for draft in drafts]
        idle = [stubs(draft.program, draft.entry_point) for draft in drafts]
        probes = [probe(draft) for draft in drafts]
        pairs = []
        answers_differ = CodeTask(tests=(f"assert len(set({PROBED}())) > 1",), entry_point=PROBED)
        for draft, programs, lazy, probed in zip(drafts, wrong, idle, probes, strict=True):
            pairs += [_pair(draft, program) for program in [*programs, *lazy]]
            if probed is not None:
                pairs.append(CodePair(answers_differ, probed))
        passed = iter(
            [one.verdict.outcome == Outcome.CORRECT for one in self._verifier.judge(pairs)]
        )
        judged = []
        for draft, programs, lazy, probed in zip(drafts, wrong, idle, probes, strict=True):
            alive = sum(next(passed) for _ in programs)
            idle_passed = sum(next(passed) for _ in lazy)
            alike = probed is not None and not next(passed)
            reason, note = self._weakness(alive, len(programs), idle_passed, alike=alike)
            judged.append(
                DraftOutcome(
                    draft=draft,
                    reason=reason,
                    note=note,
                    killed=len(programs) - alive,
                    mutants=len(programs),
                )
            )
        return judged

    def _weakness(self, alive: int, count: int, idle: int, *, alike: bool) -> tuple[str, str]:
        if idle:
            return "weak", "a function that does no work passes"
        if alike:
            return "hard_coded", "gives the same answer for all inputs other than its tests"
        if not count or alive > self._survivors * count:
            return "weak", f"{alive} of {count} wrong programs pass"
        return "", ""


def _pair(draft: Draft, program: str) -> CodePair:
    return CodePair(CodeTask(tests=draft.tests, entry_point=draft.entry_point), program)


def _calls(tree: ast.Module, name: str) -> bool:
    """Whether a program calls ``module.function`` or ``function``."""
    last = name.rpartition(".")[2]
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        (isinstance(func, ast.Name) and func.id == last)
        or (isinstance(func, ast.Attribute) and func.attr == last)
        for func in calls
    )


# Questions about a database with their SQL: kept if the query returns something that tells.
#
# In this order an answer is dropped for
#
# * what cannot be read: ``question``, ``query``;
# * ``fails``: the query does not run on the database;
# * ``empty``: it returns no row;
# * ``weak``: it has no mutant (a query that is wrong in one place), or more than ``survivors`` of
#   them return the same rows.

_FENCE = re.compile(r"```[ \t]*\w*[^\n`]*\n(.*?)```", re.DOTALL)
_MARK = re.compile(r"^\W*question\W*", re.IGNORECASE)
_EMPTY = "SELECT NULL WHERE 0"
MOST_QUERY_MUTANTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question about a database and the query that answers it."""

    question: str
    query: str
    database: str


class QueryJudge:
    """Judges answers by running their queries on the databases, which can only be read."""

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


def query_mutants(query: str, *, most: int = MOST_QUERY_MUTANTS) -> list[str]:
    """At most ``most`` queries that differ from ``query`` in one place; none if it does not parse.

    >>> query_mutants("SELECT a FROM t WHERE b > 3")
    ['SELECT a FROM t', 'SELECT a FROM t WHERE b <= 3', 'SELECT a FROM t WHERE b > 4']
    """
    sqlglot = import_module("sqlglot")
    try:
        tree = sqlglot.parse_one(query, read="sqlite")
        original = tree.sql(dialect="sqlite")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return []
    found: dict[str, None] = {}
    places = [place for place, node in enumerate(tree.walk()) if _can_change(node)]
    for place in spread(places, MOST_TRIED * most):
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
