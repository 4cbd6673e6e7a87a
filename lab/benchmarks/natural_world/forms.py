"""Forms of a query: other ways of writing it that return the same rows, wherever that was tried.

``plain`` has no aliases, ``alias`` one for every table; ``nested`` asks in subqueries, ``exists``
in correlated ones, ``cte`` filters first; ``ordered`` sorts where a largest value was asked for,
and ``respelt`` changes words (COUNT(*) to COUNT(key), BETWEEN to two comparisons, DISTINCT to
GROUP BY, OR to a list).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dph.tasks.sql.schema import Schema
from dph.tasks.verifiers.sql.executor import SQLLimits, SQLResult, database_uri, execute_sql
from dph.tasks.verifiers.sql.rules import RULES
from dph.tasks.verifiers.sql.tokens import TokenKind, tokenize
from lab.benchmarks.natural_world.names import Columns, UnknownNameError, aliased, bare, qualified
from lab.benchmarks.natural_world.respellings import (
    between_to_comparisons,
    count_of_key,
    distinct_to_group,
    either_to_list,
    extreme_to_order,
    filter_to_cte,
    order_to_extreme,
)
from lab.benchmarks.natural_world.rules import Keys, Rule
from lab.benchmarks.natural_world.subqueries import in_to_exists, join_to_in, set_to_condition

FORMS = ("plain", "alias", "nested", "exists", "cte", "ordered", "respelt")
LIMITS = SQLLimits(seconds=2.0, rows=20_000)
_STRICT = RULES["strict"]


def parsed(gold: str) -> exp.Expr | None:
    """A query of Spider as a tree, names in lower case; None where it is not understood.

    What stands in double quotes is text there, never a name.
    """
    parts = [_as_text(t.text) if t.text[:1] == '"' else t.text for t in tokenize(gold)]
    lowered = [part if part[:1] == "'" else part.lower() for part in parts]
    try:
        return sqlglot.parse_one(" ".join(lowered).rstrip("; "), dialect="sqlite")
    except SqlglotError:
        return None


def _as_text(quoted: str) -> str:
    return "'" + quoted[1:-1].replace("'", "''") + "'"


def spelled(query: exp.Expr) -> str:
    """The query in lower case, with a blank between any two signs; texts stay as they are."""
    tokens = tokenize(query.sql(dialect="sqlite"))
    return " ".join(t.text if t.kind is TokenKind.STRING else t.text.lower() for t in tokens)


def rewritten(gold: str, columns: Columns, keys: Keys) -> dict[str, str]:
    """Every form of a query that the rules give, by its name; not checked yet.

    None at all where the query is not understood. Of equal texts the first form has it.
    """
    tree = parsed(gold)
    if tree is None:
        return {}
    found: dict[str, str] = {}
    try:
        base = qualified(tree, columns)
        for name, query in _queries(base, keys):
            text = spelled(aliased(query) if name == "alias" else bare(query, columns))
            if text not in found.values():
                found.setdefault(name, text)
    except (UnknownNameError, SqlglotError):
        return {}
    return found


def _queries(base: exp.Expr, keys: Keys) -> Iterator[tuple[str, exp.Expr]]:
    yield "plain", base
    yield "alias", base
    nested = next(filter(None, (rule(base) for rule in (join_to_in(keys), *_NESTING))), None)
    if nested is not None:
        yield "nested", nested
    exists = in_to_exists(base) or (nested is not None and in_to_exists(nested))
    if exists:
        yield "exists", exists
    if (filtered := filter_to_cte(base)) is not None:
        yield "cte", filtered
    if (ordered := extreme_to_order(base)) is not None:
        yield "ordered", ordered
    respelt = base
    respellings: tuple[Rule, ...] = (*_RESPELLING, count_of_key(keys))
    for rule in respellings:
        respelt = rule(respelt) or respelt
    if respelt is not base:
        yield "respelt", respelt


_NESTING: tuple[Rule, ...] = (set_to_condition, order_to_extreme)
_RESPELLING: tuple[Rule, ...] = (between_to_comparisons, either_to_list, distinct_to_group)


@dataclass(frozen=True, slots=True)
class Checked:
    """Forms that return the gold's rows on every database, and how many did not."""

    forms: Mapping[str, str]
    refused: Sequence[str]


def checked(gold: str, forms: Mapping[str, str], databases: Sequence[Path]) -> Checked:
    """The forms that return the same rows as the gold on all of ``databases``.

    None where the gold returns nothing, or NULL and 0 only, on the first database or on all
    others: there equal rows would say nothing. Rows are compared as bags, or in order where the
    gold sorts them (the rule ``strict``).
    """
    wanted = [_rows(database, gold) for database in databases]
    if any(rows is None for rows in wanted):
        return Checked({}, tuple(forms))
    if not _tells(wanted[0]) or not any(map(_tells, wanted[1:])):
        return Checked({}, ())
    kept = {
        name: text
        for name, text in forms.items()
        if all(
            _equal(_rows(d, text), rows, gold) for d, rows in zip(databases, wanted, strict=True)
        )
    }
    return Checked(kept, tuple(set(forms) - set(kept)))


def _rows(database: Path, sql: str) -> list[tuple[object, ...]] | None:
    result = execute_sql(database_uri(database), sql.rstrip("; "), LIMITS)
    return result.rows if isinstance(result, SQLResult) else None


def _tells(rows: list[tuple[object, ...]] | None) -> bool:
    return any(value not in (None, 0) for row in rows or () for value in row)


def _equal(
    rows: list[tuple[object, ...]] | None, wanted: list[tuple[object, ...]] | None, gold: str
) -> bool:
    if rows is None or wanted is None:
        return False
    return _STRICT.compare(rows, _STRICT.keep(wanted, gold)).reward == 1.0


def columns_of(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The columns of each table, in lower case."""
    return {t.name.lower(): tuple(c.name.lower() for c in t.columns) for t in schema.tables}


def keys_of(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The primary key of each table, in lower case."""
    return {t.name.lower(): tuple(k.lower() for k in t.primary_key) for t in schema.tables}
