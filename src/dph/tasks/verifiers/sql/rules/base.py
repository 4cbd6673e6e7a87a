"""Interface of a rule of comparison: the gold's rows and the prediction's in, a reward out."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A reward in [0, 1], and the reason when it is not 1."""

    reward: float
    reason: str = ""


MATCH = Comparison(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLRule:
    """Rule for when a prediction's result counts as the gold's.

    Attributes:
        keep: what of the gold's rows (and its statement) is kept for the comparisons.
        compare: the prediction's rows against what was kept.
        text_errors: how text that is not UTF-8 is decoded (an error handler of ``bytes.decode``).
        distinct: whether only the first of equal rows counts, on both sides.
        nothing_is_empty: whether the official evaluator takes a prediction without any statement
            for one with an empty result.
    """

    name: str
    keep: Callable[[Rows, str], Any]
    compare: Callable[[Rows, Any], Comparison]
    rewrite_gold: Callable[[str], str] = str
    rewrite_prediction: Callable[[str], str] = str
    text_errors: str = "surrogateescape"
    distinct: bool = False
    nothing_is_empty: bool = False


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The gold's rows, and whether their order counts."""

    rows: Rows
    ordered: bool


def bag(items: Iterable[Hashable]) -> dict[Hashable, int]:
    """Number of occurrences of each item.

    A plain dict: two Counters are compared item by item in Python, which takes seconds for a
    result of half a million rows.
    """
    return dict(Counter(items))


# Reasons are for people, and of hostile data: cells are cut, shown as Python writes them (no
# control character is left), and a line has at most 160 characters.
LONGEST = 160
_ROW, _CELL = 50, 24
_SEARCHED = 10_000
"""Of longer results the rows are not counted, for that would take as long as comparing them."""
_COMPARED, _TRIED = 2_000, 100

Key = Callable[[Row], Hashable]
Equal = Callable[[Row, Row], bool]


def difference(
    predicted: Rows,
    gold: Rows,
    what: str = "rows",
    *,
    in_order: bool = False,
    key: Key = tuple,
    equal: Equal | None = None,
) -> str:
    """Difference of the results: in the number of rows, of columns, in a row, or in their order.

    ``what`` the rows are called; with ``in_order`` their order counts, else their ``key`` is what
    is compared. ``equal`` tells whether rows are equal that are not the same; it is asked of few.

    >>> difference([(1, "a")], [(1, "b")])
    "got (1, 'a'), expected (1, 'b')"
    >>> difference([("a",)], [("a",), (None,)])
    '1 rows, the gold has 2: (NULL) is missing'
    """
    many = len(predicted) != len(gold)
    wide = bool(predicted and gold) and len(predicted[0]) != len(gold[0])
    counted = [f"{len(predicted)} {what}, the gold has {len(gold)}"] if many else []
    if wide:
        counted.append(f"{len(predicted[0])} columns, the gold has {len(gold[0])}")
    searched = max(len(predicted), len(gold)) <= _SEARCHED
    if in_order and not many:
        said = _in_order(predicted, gold, key, equal, searched=searched)
    elif searched:
        said = _unordered(predicted, gold, key, equal)
    else:
        said = _first(predicted, gold)
    return line("; ".join(counted), said)


def line(*parts: str) -> str:
    """Parts of a reason, the general one first, in at most 160 characters."""
    text = ": ".join(filter(None, parts))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _in_order(predicted: Rows, gold: Rows, key: Key, equal: Equal | None, *, searched: bool) -> str:
    """The first row that is another one, and whether only the order differs."""

    def differ(one: Row, other: Row) -> bool:
        return key(one) != key(other) and not (equal is not None and equal(one, other))

    pairs = list(zip(predicted, gold, strict=True))
    place = next((i for i, pair in enumerate(pairs) if differ(*pair)), 0)
    same = searched and Counter(map(key, predicted)) == Counter(map(key, gold))
    return line("another order" * same, f"row {place + 1}", came(*pairs[place]))


def _unordered(predicted: Rows, gold: Rows, key: Key, equal: Equal | None) -> str:
    """A row that is too much and one that is missing."""
    ours, theirs = Counter(map(key, predicted)), Counter(map(key, gold))
    extra = [row for row in predicted if ours[key(row)] > theirs[key(row)]]
    missing = [row for row in gold if theirs[key(row)] > ours[key(row)]]
    if extra and missing and equal is not None:
        some, others = extra[:_TRIED], missing[:_TRIED]
        extra = [one for one in some if not any(equal(one, other) for other in others)] or extra
        missing = [one for one in others if not any(equal(other, one) for other in some)] or missing
    if extra and missing:
        return came(extra[0], missing[0])
    if not extra and not missing:
        return _first(predicted, gold)
    row = (extra or missing)[0]
    times, wanted = ours[key(row)], theirs[key(row)]
    if times and wanted:
        return f"{shown(row)} came {times} times, {wanted} expected"
    return f"{shown(row)} is {'too much' if times else 'missing'}"


def _first(predicted: Rows, gold: Rows) -> str:
    """The first rows, where both sides have one."""
    if not (predicted and gold):
        return f"{shown((predicted or gold)[0])} is {'too much' if predicted else 'missing'}"
    pairs = zip(predicted, gold, strict=False)
    one, other = next((pair for pair in pairs if pair[0] != pair[1]), (predicted[0], gold[0]))
    return came(one, other)


def came(one: Row, other: Row) -> str:
    """``got one, expected other``; of long rows that are alike only the first different cell."""
    shown_one, shown_other = shown(one), shown(other)
    if shown_one != shown_other and max(len(shown_one), len(shown_other)) < _ROW:
        return f"got {shown_one}, expected {shown_other}"
    differing = [i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]]
    if not differing or len(one) != len(other):
        return f"got {shown_one}, expected {shown_other}"
    place = differing[0]
    start = _start(one[place], other[place])
    ours, theirs = (_cell(row[place], start) for row in (one, other))
    return f"column {place + 1}: got {ours}, expected {theirs}"


def shown(row: Sequence[object]) -> str:
    """A row in at most 50 characters.

    >>> shown((1, None, "a" * 99, b"ab"))
    "(1, NULL, 'aaaaaaaaaaaaaaaaaaaaaaaa...', x'6162')"
    """
    text = ", ".join(map(_cell, row[:_ROW]))
    return f"({text})" if len(text) <= _ROW - 2 else f"({text[: _ROW - 5]}...)"


def _cell(cell: object, start: int = 0) -> str:
    """A cell as a literal, from a place on."""
    if cell is None:
        return "NULL"
    if not isinstance(cell, str | bytes):
        return repr(cell)
    part = cell[start : start + _CELL]
    text = repr(part) if isinstance(part, str) else f"x'{part.hex()}'"
    before, after = "..." * bool(start), "..." * (len(cell) > start + _CELL)
    opening = 1 if isinstance(part, str) else 2
    return f"{text[:opening]}{before}{text[opening:-1]}{after}{text[-1]}"


def _start(one: object, other: object) -> int:
    """Position where two long texts begin to differ, or a little before; 0 if that is near."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return 0
    pairs = enumerate(zip(one[:_COMPARED], other[:_COMPARED], strict=False))
    place = next((n for n, (a, b) in pairs if a != b), min(len(one), len(other), _COMPARED))
    return max(0, place - _CELL // 3) if place >= _CELL else 0
