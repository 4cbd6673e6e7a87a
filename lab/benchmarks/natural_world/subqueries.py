"""Rules that ask in subqueries: IN for joins and set operations, EXISTS for IN."""

from collections.abc import Mapping, Sequence

from sqlglot import exp

from lab.benchmarks.natural_world.names import own_columns, sources
from lab.benchmarks.natural_world.rules import (
    Keys,
    NotLinkedError,
    Rule,
    all_of,
    conjuncts,
    in_each,
    own_aggregates,
)

_SETS = (exp.Intersect, exp.Except, exp.Union)


def join_to_in(keys: Keys) -> Rule:
    """``FROM a JOIN b ON a.x = b.y`` as ``FROM a WHERE a.x IN (SELECT b.y FROM b)``.

    Where everything that is shown, grouped and sorted comes from the first table or from the last
    one: the others are asked about in the subquery. Where rows are counted or added up, only if
    b.y is the primary key of b, so that the join repeats no row.
    """

    def change(select: exp.Select) -> bool:
        return _join_to_in(select, keys)

    return lambda query: in_each(query, change)


def _join_to_in(select: exp.Select, keys: Keys) -> bool:
    joins = select.args.get("joins") or []
    tables = sources(select)
    if not joins or len(tables) != len(joins) + 1 or not _are_simple(joins, tables):
        return False
    shown = {c.table for c in own_columns(select) if not _is_within(c, exp.Where, exp.Join)}
    chain = list(tables)
    if shown == {chain[-1]}:  # from the other end
        chain.reverse()
    if shown != {chain[0]}:
        return False
    links = [join.args["on"] for join in joins]
    first = chain[0]
    linking = [on for on in links if first in {c.table for c in on.find_all(exp.Column)}]
    if len(linking) != 1:
        return False
    left, right = linking[0].left, linking[0].right
    if left.table != first:
        left, right = right, left
    others = chain[1:]
    is_key = len(others) == 1 and tuple(keys.get(tables[others[0]].name, ())) == (right.name,)
    if any(own_aggregates(select)) and not is_key:
        return False
    where = select.args.get("where")
    inner, outer = [], []
    for condition in conjuncts(where.this) if where is not None else []:
        owners = {column.table for column in condition.find_all(exp.Column)}
        if first in owners and len(owners) > 1:
            return False
        (outer if first in owners else inner).append(condition)
    subquery = exp.Select(expressions=[right.copy()])
    _fill(subquery, others, tables, [on for on in links if on is not linking[0]], inner)
    condition = exp.In(this=left.copy(), query=exp.Subquery(this=subquery))
    select.set("from_", exp.From(this=tables[first].copy()))
    select.set("joins", None)
    select.set("where", exp.Where(this=all_of([*outer, condition])))
    return True


def _are_simple(joins: Sequence[exp.Join], tables: Mapping[str, exp.Expr]) -> bool:
    """Whether all are inner joins of tables, each on one equality of two columns."""
    return all(isinstance(table, exp.Table) for table in tables.values()) and all(
        not join.side
        and isinstance(on := join.args.get("on"), exp.EQ)
        and isinstance(on.left, exp.Column)
        and isinstance(on.right, exp.Column)
        and on.left.table != on.right.table
        for join in joins
    )


def _fill(
    select: exp.Select,
    names: Sequence[str],
    tables: Mapping[str, exp.Expr],
    links: Sequence[exp.Expr],
    conditions: Sequence[exp.Expr],
) -> None:
    """FROM and WHERE of a subquery over some tables, joined in an order in which links fit."""
    select.set("from_", exp.From(this=tables[names[0]].copy()))
    joins, have, left = [], {names[0]}, list(links)
    while left:
        on = next((on for on in left if _new_table(on, have)), None)
        if on is None:
            raise NotLinkedError
        left.remove(on)
        name = _new_table(on, have)
        have.add(name)
        joins.append(exp.Join(this=tables[name].copy(), on=on.copy()))
    if have != set(names):
        raise NotLinkedError
    select.set("joins", joins or None)
    if conditions:
        select.set("where", exp.Where(this=all_of(conditions)))


def _new_table(on: exp.Expr, have: set[str]) -> str:
    """The one table of a link that is not there yet; empty if there is not just one."""
    new = {column.table for column in on.find_all(exp.Column)} - have
    return new.pop() if len(new) == 1 else ""


def in_to_exists(query: exp.Expr) -> exp.Expr | None:
    """``x IN (SELECT y FROM b WHERE c)`` as ``EXISTS (SELECT 1 FROM b WHERE c AND y = x)``."""
    result = query.copy()
    changed = False
    for found in list(result.find_all(exp.In)):
        inner = found.args["query"].this if found.args.get("query") else None
        if not _is_plain_select(inner) or not isinstance(found.this, exp.Column):
            continue
        (shown,) = inner.expressions
        if not isinstance(shown, exp.Column) or found.this.table in sources(inner):
            continue
        where = inner.args.get("where")
        conditions = [
            *(conjuncts(where.this) if where else []),
            exp.EQ(this=shown.copy(), expression=found.this.copy()),
        ]
        inner.set("expressions", [exp.Literal.number(1)])
        inner.set("distinct", None)
        inner.set("where", exp.Where(this=all_of(conditions)))
        found.replace(exp.Exists(this=inner.copy()))
        changed = True
    return result if changed else None


def _is_plain_select(inner: exp.Expr | None) -> bool:
    """Whether it is a SELECT of one thing without groups and limits."""
    return (
        isinstance(inner, exp.Select)
        and len(inner.expressions) == 1
        and not any(inner.args.get(name) for name in ("group", "having", "limit", "order"))
    )


def set_to_condition(query: exp.Expr) -> exp.Expr | None:
    """INTERSECT as IN: ``SELECT DISTINCT a ... WHERE a IN (SELECT b ...)``.

    EXCEPT becomes NOT IN; UNION of two queries that differ in WHERE only becomes OR.
    """
    if not isinstance(query, _SETS) or query.args.get("order") or query.args.get("limit"):
        return None
    first, second = query.left.copy(), query.right.copy()
    if not isinstance(first, exp.Select) or not isinstance(second, exp.Select):
        return None
    if first.args.get("group") or first.args.get("limit"):
        return None
    where = first.args.get("where")
    conditions = [where.this] if where else []
    if isinstance(query, exp.Union):
        other = second.args.get("where")
        if not where or not other or _without_where(first) != _without_where(second):
            return None
        conditions = [exp.Or(this=where.this.copy(), expression=other.this.copy())]
    else:
        if len(first.expressions) != 1 or not isinstance(first.expressions[0], exp.Column):
            return None
        shown = first.expressions[0]
        condition = exp.In(this=shown.copy(), query=exp.Subquery(this=second))
        conditions.append(exp.Not(this=condition) if isinstance(query, exp.Except) else condition)
    first.set("where", exp.Where(this=all_of(conditions)))
    first.set("distinct", exp.Distinct())
    return first


def _without_where(select: exp.Select) -> str:
    copy = select.copy()
    copy.set("where", None)
    return copy.sql(dialect="sqlite")


def _is_within(column: exp.Column, *kinds: type[exp.Expr]) -> bool:
    return column.find_ancestor(exp.Select, *kinds).__class__ in kinds
