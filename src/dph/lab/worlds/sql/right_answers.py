"""The right answers to the world's unlabelled prompts: the ceiling of what any target can teach.

The files of a world hold none. A question's words say which it is, because every business term of
a database means one column, so its query can be written again from the prompt.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from dph.errors import DataError
from dph.lab.worlds.sql.domains import DOMAINS, Domain
from dph.lab.worlds.sql.question_sets import gold_sql
from dph.lab.worlds.sql.questions import (
    AGGREGATES,
    COMPARISONS,
    DIRECTIONS,
    EQUALITY,
    Question,
    WhereCondition,
)
from dph.records import Problem

_DOMAINS = {domain.schema: domain for domain in DOMAINS}
_CONDITION = re.compile(rf"(\w+) ({'|'.join([*COMPARISONS, *EQUALITY])}) (\d+|'\w+')")
_WORDS = re.compile(
    rf"(?:how many|(show|{'|'.join(AGGREGATES)}) (\w+) of) (\w+) (?:with|whose (\w+) has) (?:"
    rf"({'|'.join(DIRECTIONS)}) (\w+)|({_CONDITION.pattern}(?: and {_CONDITION.pattern})?))"
)


def with_right_answers(
    train: Sequence[Problem],  # noqa: ARG001
    file: Sequence[Problem],
    seed: int,  # noqa: ARG001
) -> list[Problem]:
    """The prompts of a file with their right queries, for ``stores.<name>.prompts``.

    Raises:
        DataError: a prompt is none of this world's.
    """
    return [
        replace(problem, answer={**problem.answer, "gold_sql": gold_sql(question_of(problem))})
        for problem in file
    ]


def question_of(problem: Problem) -> Question:
    """The question whose prompt it is.

    Raises:
        DataError: it is none of this world's.
    """
    schema, _, rest = str(problem.prompt).partition(" | ")
    domain, words = _DOMAINS.get(schema), _WORDS.fullmatch(rest.removesuffix(" ->"))
    if domain is None or words is None:
        raise DataError(
            f"{problem.problem_id!r} is not a question of the text-to-SQL world, the only one "
            f"with known answers: {problem.prompt!r:.120}"
        )
    return _question(domain, words)


def _question(domain: Domain, words: re.Match[str]) -> Question:
    verb, shown, table, joined, direction, ordered, tail = words.groups()[:7]
    conditions = tuple(WhereCondition(*found) for found in _CONDITION.findall(tail or ""))
    aggregate = verb if verb in AGGREGATES else None
    return Question(
        domain=domain,
        kind=_kind(shown, aggregate, joined, direction, len(conditions)),
        table=table,
        shown=shown,
        aggregate=aggregate,
        conditions=conditions,
        superlative=(direction, ordered) if direction else None,
        joined=joined,
    )


def _kind(
    shown: str | None,
    aggregate: str | None,
    joined: str | None,
    direction: str | None,
    conditions: int,
) -> str:
    if direction:
        return "superlative"
    if joined:
        return "join"
    if conditions > 1:
        return "two_conditions"
    if shown is None:
        return "count"
    return "aggregate" if aggregate else "list"
