"""What a rule of comparison is: the gold's rows and the prediction's in, a reward out."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
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


def as_it_is(sql: str) -> str:
    """The statement, unchanged."""
    return sql


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLRule:
    """When a prediction's result counts as the gold's.

    Attributes:
        name: what recipes and the command line call it.
        keep: what of the gold's rows (and its statement) is kept for the comparisons.
        compare: the prediction's rows against what was kept.
        rewrite_gold: the gold statement as it is run.
        rewrite_prediction: the predicted statement as it is run.
        text_errors: how text that is not UTF-8 is decoded (an error handler of ``bytes.decode``).
        distinct: whether only the first of equal rows counts, on both sides.
        nothing_is_empty: whether the official evaluator takes a prediction without any statement
            for one with an empty result.
    """

    name: str
    keep: Callable[[Rows, str], Any]
    compare: Callable[[Rows, Any], Comparison]
    rewrite_gold: Callable[[str], str] = as_it_is
    rewrite_prediction: Callable[[str], str] = as_it_is
    text_errors: str = "surrogateescape"
    distinct: bool = False
    nothing_is_empty: bool = False


def bag(items: Iterable[Hashable]) -> dict[Hashable, int]:
    """How often each item is there.

    A plain dict: two Counters are compared item by item in Python, which takes seconds for a
    result of half a million rows.
    """
    return dict(Counter(items))
