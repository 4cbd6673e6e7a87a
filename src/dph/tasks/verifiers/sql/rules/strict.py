"""The strict rule: the same bag of rows, the same columns in the same order.

Rows have to come in the gold's order when the gold orders them itself, that is when its ORDER BY
stands outside all parentheses (not in a subquery, a window or a string). A fractional number is
equal to any number within 1e-9 of the larger one, and to 0 if only rounding keeps it from that;
everything else equals only itself (1 and 1.0 are the same number, '1' is none).
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import TypeGuard

from dph.tasks.verifiers.sql.rules.base import (
    MATCH,
    Comparison,
    OrderedRows,
    Row,
    Rows,
    SQLRule,
    difference,
)
from dph.tasks.verifiers.sql.tokens import tokenize

TOLERANCE = 1e-9
ROUNDING = 1e-12
"""Largest size of what is left of a zero, such as ``0.1 + 0.2 - 0.3``, by rounding."""
_FEW_BITS = 2.0**12
_NUMBER = object()


def keep(rows: Rows, sql: str) -> OrderedRows:
    """The gold's rows and whether its statement orders them."""
    return OrderedRows(rows, "order" in sql.lower() and orders_rows(sql))


def compare(predicted: Rows, gold: OrderedRows) -> Comparison:
    """True if the rows are equal, in any order unless the gold has one."""
    rows = gold.rows
    if predicted == rows:
        return MATCH
    if len(predicted) != len(rows) or len(predicted[0]) != len(rows[0]):
        return Comparison(0.0, difference(predicted, rows))
    if all(map(rows_equal, predicted, rows)) if gold.ordered else bags_equal(predicted, rows):
        return MATCH
    how = difference(predicted, rows, in_order=gold.ordered, equal=rows_equal)
    return Comparison(0.0, how)


def orders_rows(sql: str) -> bool:
    """True if a statement has an ORDER BY outside all parentheses.

    >>> orders_rows("SELECT a FROM t ORDER  BY a"), orders_rows("SELECT max(a) OVER (ORDER BY b)")
    (True, False)
    """
    previous = ""
    for token in tokenize(sql):
        if previous == "ORDER" and token.word == "BY" and token.depth == 0:
            return True
        previous = token.word
    return False


def rows_equal(one: Row, other: Row) -> bool:
    """True if two rows of the same length are equal cell by cell."""
    return one == other or all(map(_cells_equal, one, other))


def bags_equal(ones: Rows, others: Rows) -> bool:
    """True if the rows can be paired so that each pair is equal."""
    left, right = Counter(ones), Counter(others)
    if dict.__eq__(left, right):  # Counters are compared in Python, and slowly
        return True
    missing, extra = left - right, right - left
    groups: defaultdict[Row, tuple[Rows, Rows]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((missing, extra)):
        for row in rows.elements():
            rest = tuple(_NUMBER if _is_number(cell) else cell for cell in row)
            groups[rest][side].append(row)
    return all(_pairable(*group) for group in groups.values())


def _pairable(ones: Rows, others: Rows) -> bool:
    """True if rows that differ in nothing but numbers can be paired: a perfect matching."""
    if len(ones) != len(others):
        return False
    # There is one: rows without any number that agree in the rest are equal, and gone already.
    place = next(i for i, cell in enumerate(ones[0]) if _is_number(cell))
    others = sorted(others, key=lambda row: row[place])
    firsts = [row[place] for row in others]
    partners: dict[int, int] = {}
    candidates = []
    for row in ones:
        width = max(2 * TOLERANCE * abs(row[place]), 2 * ROUNDING)
        low = bisect_left(firsts, row[place] - width)
        high = bisect_right(firsts, row[place] + width)
        candidates.append([i for i in range(low, high) if rows_equal(row, others[i])])
    return all(_find_partner(index, candidates, partners) for index in range(len(ones)))


def _find_partner(
    start: int, candidates: Sequence[Sequence[int]], partners: dict[int, int]
) -> bool:
    """Give row ``start`` a partner; on the way rows that have one may change theirs.

    ``partners`` maps a row of the other side to one of this. An augmenting path, breadth first.
    """
    reached_from: dict[int, int] = {}
    reached_by: dict[int, int | None] = {start: None}  # row -> the other row it would give up
    waiting = deque([start])
    while waiting:
        row = waiting.popleft()
        for other in candidates[row]:
            if other in reached_from:
                continue
            reached_from[other] = row
            if other in partners:
                reached_by[partners[other]] = other
                waiting.append(partners[other])
                continue
            free: int | None = other
            while free is not None:
                partners[free] = reached_from[free]
                free = reached_by[reached_from[free]]
            return True
    return False


def _cells_equal(one: object, other: object) -> bool:
    if one == other:
        return True
    if not (_is_number(one) and _is_number(other)) or int is type(one) is type(other):
        return False
    if math.isclose(one, other, rel_tol=TOLERANCE):
        return True
    # Both may be 0 but for rounding. The remains of a subtraction are a few last bits of larger
    # numbers, and so have few bits themselves: a tiny number that has many is a value.
    return all(
        abs(number) <= ROUNDING and (math.frexp(number)[0] * _FEW_BITS).is_integer()
        for number in (one, other)
    )


def _is_number(cell: object) -> TypeGuard[float]:
    return isinstance(cell, int | float)


STRICT = SQLRule(name="strict", keep=keep, compare=compare)
