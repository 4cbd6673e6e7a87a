"""Rules that write a query in another way: each takes a qualified query and gives another, or none.

A rule looks at the query alone. Whether the result returns the same rows may depend on the data
(a join repeats rows, a largest value may be had twice): ``forms`` keeps what was seen to be equal.
No rule changes the query that it is given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp

from benchmarks.natural_world.names import own_columns, selects, sources

Keys = Mapping[str, Sequence[str]]
"""The primary key of each table, in lower case."""
Rule = Callable[[exp.Expr], exp.Expr | None]

_SETS = (exp.Intersect, exp.Except, exp.Union)


def join_to_in(keys: Keys) -> Rule:
    """``FROM a JOIN b ON a.x = b.y`` as ``FROM a WHERE a.x IN (SELECT b.y FROM b)``.

    Where everything that is shown, grouped and sorted comes from the first table or from the last
    one: the others are asked about in the subquery. Where rows are counted or added up, only if
    b.y is the primary key of b, so that the join repeats no row.
    """

    def change(select: exp.Select) -> bool:
        return _join_to_in(select, keys)

    return lambda query: _in_each(query, change)


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
    for condition in _conjuncts(where.this) if where is not None else []:
        owners = {column.table for column in condition.find_all(exp.Column)}
        if first in owners and len(owners) > 1:
            return False
        (outer if first in owners else inner).append(condition)
    subquery = exp.Select(expressions=[right.copy()])
    _fill(subquery, others, tables, [on for on in links if on is not linking[0]], inner)
    condition = exp.In(this=left.copy(), query=exp.Subquery(this=subquery))
    select.set("from_", exp.From(this=tables[first].copy()))
    select.set("joins", None)
    select.set("where", exp.Where(this=_all_of([*outer, condition])))
    return True


def own_aggregates(select: exp.Select) -> Iterator[exp.AggFunc]:
    """COUNT, SUM and the like of a SELECT, but for those inside a SELECT in it."""
    for found in select.find_all(exp.AggFunc):
        if found.find_ancestor(exp.Select) is select:
            yield found


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
            raise _NotLinkedError
        left.remove(on)
        name = _new_table(on, have)
        have.add(name)
        joins.append(exp.Join(this=tables[name].copy(), on=on.copy()))
    if have != set(names):
        raise _NotLinkedError
    select.set("joins", joins or None)
    if conditions:
        select.set("where", exp.Where(this=_all_of(conditions)))


class _NotLinkedError(Exception):
    """Tables that nothing joins."""


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
        conditions = [*(_conjuncts(where.this) if where else []), exp.EQ(this=shown.copy(), expression=found.this.copy())]
        inner.set("expressions", [exp.Literal.number(1)])
        inner.set("distinct", None)
        inner.set("where", exp.Where(this=_all_of(conditions)))
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


def order_to_extreme(query: exp.Expr) -> exp.Expr | None:
    """``ORDER BY x DESC LIMIT 1`` as ``WHERE x = (SELECT MAX(x) ...)``; without DESC as MIN."""
    return _in_each(query, _order_to_extreme)


def _order_to_extreme(select: exp.Select) -> bool:
    order, limit = select.args.get("order"), select.args.get("limit")
    if order is None or limit is None or limit.expression.name != "1" or select.args.get("group"):
        return False
    if len(order.expressions) != 1 or not isinstance(order.expressions[0].this, exp.Column):
        return False
    if any(own_aggregates(select)):
        return False
    ordered = order.expressions[0]
    kind = exp.Max if ordered.args.get("desc") else exp.Min
    where = select.args.get("where")
    extreme = exp.Select(expressions=[kind(this=ordered.this.copy())])
    for name in ("from_", "joins", "where"):
        part = select.args.get(name)
        copies = [item.copy() for item in part] if isinstance(part, list) else part and part.copy()
        extreme.set(name, copies)
    equal = exp.EQ(this=ordered.this.copy(), expression=exp.Subquery(this=extreme))
    select.set("where", exp.Where(this=_all_of([*([where.this] if where else []), equal])))
    select.set("order", None)
    select.set("limit", None)
    return True


def extreme_to_order(query: exp.Expr) -> exp.Expr | None:
    """``WHERE x = (SELECT MAX(x) FROM a)``, the only condition, as ``ORDER BY x DESC LIMIT 1``."""
    return _in_each(query, _extreme_to_order)


def _extreme_to_order(select: exp.Select) -> bool:
    where = select.args.get("where")
    if where is None or not isinstance(where.this, exp.EQ) or select.args.get("order"):
        return False
    column, inner = where.this.left, where.this.right
    if not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Select):
        return False
    shown = inner.this.expressions
    if len(shown) != 1 or not isinstance(shown[0], (exp.Max, exp.Min)) or inner.this.args.get("where"):
        return False
    if not isinstance(column, exp.Column) or shown[0].this.name != column.name:
        return False
    desc = isinstance(shown[0], exp.Max)
    select.set("where", None)
    # SQLite's own order of NULL, so that no NULLS LAST is written.
    ordered = exp.Ordered(this=column.copy(), desc=desc, nulls_first=not desc)
    select.set("order", exp.Order(expressions=[ordered]))
    select.set("limit", exp.Limit(expression=exp.Literal.number(1)))
    return True


def set_to_condition(query: exp.Expr) -> exp.Expr | None:
    """``SELECT a ... INTERSECT SELECT b ...`` as ``SELECT DISTINCT a ... WHERE a IN (SELECT b ...)``.

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
    first.set("where", exp.Where(this=_all_of(conditions)))
    first.set("distinct", exp.Distinct())
    return first


def _without_where(select: exp.Select) -> str:
    copy = select.copy()
    copy.set("where", None)
    return copy.sql(dialect="sqlite")


def filter_to_cte(query: exp.Expr) -> exp.Expr | None:
    """``SELECT ... FROM a WHERE c`` as ``WITH c AS (SELECT * FROM a WHERE c) SELECT ... FROM c``."""
    if not isinstance(query, exp.Select) or query.args.get("joins"):
        return None
    result = query.copy()
    where, (name, table) = result.args.get("where"), next(iter(sources(result).items()))
    if where is None or not isinstance(table, exp.Table):
        return None
    filtered = exp.Select(expressions=[exp.Star()])
    filtered.set("from_", exp.From(this=table.copy()))
    filtered.set("where", where.copy())
    result.set("where", None)
    for column in own_columns(result):
        if column.table == name:
            column.set("table", exp.to_identifier("c"))
    result.set("from_", exp.From(this=exp.to_table("c")))
    return result.with_("c", as_=filtered, copy=False)


def between_to_comparisons(query: exp.Expr) -> exp.Expr | None:
    """``x BETWEEN a AND b`` as ``x >= a AND x <= b``."""
    result = query.copy()
    found = list(result.find_all(exp.Between))
    for between in found:
        x = between.this
        low = exp.GTE(this=x.copy(), expression=between.args["low"].copy())
        high = exp.LTE(this=x.copy(), expression=between.args["high"].copy())
        between.replace(exp.And(this=low, expression=high))
    return result if found else None


def either_to_list(query: exp.Expr) -> exp.Expr | None:
    """``x = a OR x = b`` as ``x IN (a, b)``."""
    result = query.copy()
    changed = False
    for either in list(result.find_all(exp.Or)):
        sides = [either.left, either.right]
        if not all(
            isinstance(s, exp.EQ) and isinstance(s.left, exp.Column) and isinstance(s.right, exp.Literal)
            for s in sides
        ) or sides[0].left != sides[1].left:
            continue
        values = [side.right.copy() for side in sides]
        either.replace(exp.In(this=sides[0].left.copy(), expressions=values))
        changed = True
    return result if changed else None


def distinct_to_group(query: exp.Expr) -> exp.Expr | None:
    """``SELECT DISTINCT a, b`` as ``SELECT a, b ... GROUP BY a, b``."""
    return _in_each(query, _distinct_to_group)


def _distinct_to_group(select: exp.Select) -> bool:
    shown = select.expressions
    if not select.args.get("distinct") or select.args.get("group"):
        return False
    if not all(isinstance(item, exp.Column) for item in shown):
        return False
    select.set("distinct", None)
    select.set("group", exp.Group(expressions=[item.copy() for item in shown]))
    return True


def count_of_key(keys: Keys) -> Rule:
    """``COUNT(*)`` over one table as ``COUNT`` of its primary key."""

    def change(select: exp.Select) -> bool:
        items = list(sources(select).items())
        if len(items) != 1 or not isinstance(items[0][1], exp.Table):
            return False
        name, table = items[0]
        stars = [
            count
            for count in own_aggregates(select)
            if isinstance(count, exp.Count) and isinstance(count.this, exp.Star)
        ]
        if not stars or len(keys.get(table.name, ())) != 1:
            return False
        for count in stars:
            count.set("this", exp.column(keys[table.name][0], table=name))
        return True

    return lambda query: _in_each(query, change)


def _in_each(query: exp.Expr, change: Callable[[exp.Select], bool]) -> exp.Expr | None:
    """The query with every SELECT changed that can be; None if none can."""
    result = query.copy()
    try:
        changed = [change(select) for select in selects(result)]
    except _NotLinkedError:
        return None
    return result if any(changed) else None


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    yield from (
        (part.copy() for part in condition.flatten())
        if isinstance(condition, exp.And)
        else [condition.copy()]
    )


def _all_of(conditions: Sequence[exp.Expr]) -> exp.Expr:
    if len(conditions) == 1:
        return conditions[0].copy()
    first, *others = [_wrapped(condition.copy()) for condition in conditions]
    for other in others:
        first = exp.And(this=first, expression=other)
    return first


def _wrapped(condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=condition) if isinstance(condition, exp.Or) else condition


def _is_within(column: exp.Column, *kinds: type[exp.Expr]) -> bool:
    return column.find_ancestor(exp.Select, *kinds).__class__ in kinds
