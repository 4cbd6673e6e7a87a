"""What a rule is, and the pieces that rules are made of: conditions, and changes of each SELECT.

A rule takes a qualified query and writes it in another way, or gives none. It looks at the query
alone. Whether the result returns the same rows may depend on the data (a join repeats rows, a
largest value may be had twice): ``forms`` keeps what was seen to be equal. No rule changes the
query that it is given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp

from lab.benchmarks.natural_world.names import selects

Keys = Mapping[str, Sequence[str]]
"""The primary key of each table, in lower case."""
Rule = Callable[[exp.Expr], exp.Expr | None]


def in_each(query: exp.Expr, change: Callable[[exp.Select], bool]) -> exp.Expr | None:
    """The query with every SELECT changed that can be; None if none can."""
    result = query.copy()
    try:
        changed = [change(select) for select in selects(result)]
    except NotLinkedError:
        return None
    return result if any(changed) else None


class NotLinkedError(Exception):
    """Tables that nothing joins."""


def own_aggregates(select: exp.Select) -> Iterator[exp.AggFunc]:
    """COUNT, SUM and the like of a SELECT, but for those inside a SELECT in it."""
    for found in select.find_all(exp.AggFunc):
        if found.find_ancestor(exp.Select) is select:
            yield found


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Copies of what AND connects."""
    yield from (
        (part.copy() for part in condition.flatten())
        if isinstance(condition, exp.And)
        else [condition.copy()]
    )


def all_of(conditions: Sequence[exp.Expr]) -> exp.Expr:
    """Copies of at least one condition, connected by AND."""
    if len(conditions) == 1:
        return conditions[0].copy()
    first, *others = [_wrapped(condition.copy()) for condition in conditions]
    for other in others:
        first = exp.And(this=first, expression=other)
    return first


def _wrapped(condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=condition) if isinstance(condition, exp.Or) else condition
