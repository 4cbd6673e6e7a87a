"""Whose column is it: every column of a query qualified, and qualified no more than needed.

Spider's queries name tables in all ways: ``T1``, the table itself, or not at all. Rewriting starts
from one spelling, in which every column carries the name of its source.
"""

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

Columns = Mapping[str, Sequence[str]]
"""The columns of each table of a database, all in lower case."""


class UnknownNameError(ValueError):
    """A query has a column that is in none of its tables, or in several."""


def sources(select: exp.Select) -> dict[str, exp.Expr]:
    """The tables and subqueries in the FROM of one SELECT, by the name that columns use."""
    clauses = [select.args.get("from_"), *(select.args.get("joins") or [])]
    items = [clause.this for clause in clauses if clause is not None]
    return {item.alias_or_name: item for item in items}


def selects(query: exp.Expr) -> list[exp.Select]:
    """Every SELECT of a query, outer ones first."""
    return list(query.find_all(exp.Select))


def own_columns(select: exp.Select) -> Iterator[exp.Column]:
    """The columns of a SELECT that are not inside a SELECT in it."""
    for column in select.find_all(exp.Column):
        if column.find_ancestor(exp.Select) is select:
            yield column


def qualified(query: exp.Expr, columns: Columns) -> exp.Expr:
    """The query with the source's name before every column; ``query`` stays as it is.

    Raises:
        UnknownNameError: a bare column is in none of the sources, or in several.
    """
    result = query.copy()
    for select in selects(result):
        for column in own_columns(select):
            if not column.table and not _is_own_name(column, select):
                column.set("table", exp.to_identifier(_owner(column, select, columns)))
    return result


def _is_own_name(column: exp.Column, select: exp.Select) -> bool:
    """Whether it is a star, or a name that the SELECT gives to one of its results."""
    return isinstance(column.this, exp.Star) or column.name in {
        item.alias for item in select.expressions if isinstance(item, exp.Alias)
    }


def _owner(column: exp.Column, select: exp.Select, columns: Columns) -> str:
    scope: exp.Select | None = select
    while scope is not None:
        found = [
            name
            for name, item in sources(scope).items()
            if isinstance(item, exp.Table) and column.name in columns.get(item.name, ())
        ]
        if len(found) == 1:
            return found[0]
        if found:
            break
        scope = scope.find_ancestor(exp.Select)
    raise UnknownNameError(f"{column.name} is a column of {len(found)} sources of {select.sql()}")


def bare(query: exp.Expr, columns: Columns) -> exp.Expr:
    """A qualified query without aliases of tables, and names before columns only where needed.

    A SELECT whose FROM has one table twice keeps its aliases. A name stays where two sources of a
    SELECT have the column, and where the column belongs to an outer SELECT.
    """
    result = query.copy()
    for select in reversed(selects(result)):  # inner ones first: names of theirs are theirs
        _unaliased(select)
    for select in selects(result):
        found = sources(select)
        for column in own_columns(select):
            if column.table in found and _is_plain(column.name, found, columns):
                column.set("table", None)
    return result


def _unaliased(select: exp.Select) -> None:
    """Take the aliases off, unless that gives two sources of this query the same name."""
    tables = {n: t for n, t in sources(select).items() if isinstance(t, exp.Table)}
    outer = select.find_ancestor(exp.Select)
    taken = set(sources(outer)) if outer is not None and _looks_outside(select) else set()
    names = [table.name for table in tables.values()]
    if len(set(names)) < len(names) or taken & set(names):
        return
    for column in select.find_all(exp.Column):
        if column.table in tables:
            column.set("table", exp.to_identifier(tables[column.table].name))
    for table in tables.values():
        table.set("alias", None)


def _looks_outside(select: exp.Select) -> bool:
    """Whether a SELECT reads columns of the query that it stands in."""
    found = sources(select)
    return any(column.table and column.table not in found for column in own_columns(select))


def _is_plain(column: str, found: Mapping[str, exp.Expr], columns: Columns) -> bool:
    owners = [
        name
        for name, item in found.items()
        if not isinstance(item, exp.Table) or column in columns.get(item.name, (column,))
    ]
    return len(owners) == 1


def aliased(query: exp.Expr) -> exp.Expr:
    """A qualified query in which every table is called t1, t2, ... in the order of the text."""
    result = query.copy()
    tables = (table for select in selects(result) for table in sources(select).values())
    numbers = {id(table): f"t{i}" for i, table in enumerate(tables, start=1)}
    renamed: set[int] = set()
    for select in reversed(selects(result)):
        names = {name: numbers[id(item)] for name, item in sources(select).items()}
        for column in select.find_all(exp.Column):
            if column.table in names and id(column) not in renamed:
                column.set("table", exp.to_identifier(names[column.table]))
                renamed.add(id(column))
        for item in sources(select).values():
            item.set("alias", exp.TableAlias(this=exp.to_identifier(numbers[id(item)])))
    return result
