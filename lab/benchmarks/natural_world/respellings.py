"""Rules that keep a query's tables: largest values, WITH, and other words for the same."""

from sqlglot import exp

from lab.benchmarks.natural_world.names import own_columns, sources
from lab.benchmarks.natural_world.rules import Keys, Rule, all_of, in_each, own_aggregates


def order_to_extreme(query: exp.Expr) -> exp.Expr | None:
    """``ORDER BY x DESC LIMIT 1`` as ``WHERE x = (SELECT MAX(x) ...)``; without DESC as MIN."""
    return in_each(query, _order_to_extreme)


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
    select.set("where", exp.Where(this=all_of([*([where.this] if where else []), equal])))
    select.set("order", None)
    select.set("limit", None)
    return True


def extreme_to_order(query: exp.Expr) -> exp.Expr | None:
    """``WHERE x = (SELECT MAX(x) FROM a)``, the only condition, as ``ORDER BY x DESC LIMIT 1``."""
    return in_each(query, _extreme_to_order)


def _extreme_to_order(select: exp.Select) -> bool:
    where = select.args.get("where")
    if where is None or not isinstance(where.this, exp.EQ) or select.args.get("order"):
        return False
    column, inner = where.this.left, where.this.right
    if not isinstance(inner, exp.Subquery) or not isinstance(inner.this, exp.Select):
        return False
    shown = inner.this.expressions
    if (
        len(shown) != 1
        or not isinstance(shown[0], (exp.Max, exp.Min))
        or inner.this.args.get("where")
    ):
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


def filter_to_cte(query: exp.Expr) -> exp.Expr | None:
    """``SELECT ... FROM a WHERE x`` as ``WITH c AS (SELECT * FROM a WHERE x) SELECT ... FROM c``.

    Of queries over one table.
    """
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
        if (
            not all(
                isinstance(s, exp.EQ)
                and isinstance(s.left, exp.Column)
                and isinstance(s.right, exp.Literal)
                for s in sides
            )
            or sides[0].left != sides[1].left
        ):
            continue
        values = [side.right.copy() for side in sides]
        either.replace(exp.In(this=sides[0].left.copy(), expressions=values))
        changed = True
    return result if changed else None


def distinct_to_group(query: exp.Expr) -> exp.Expr | None:
    """``SELECT DISTINCT a, b`` as ``SELECT a, b ... GROUP BY a, b``."""
    return in_each(query, _distinct_to_group)


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

    return lambda query: in_each(query, change)
