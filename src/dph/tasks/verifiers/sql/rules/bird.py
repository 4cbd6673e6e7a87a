"""BIRD's execution accuracy: the same set of rows, the columns in the same order.

Source: Li et al., "Can LLM Already Serve as A Database Interface?" (BIRD), section 4: EX compares
``set(predicted rows)`` with ``set(gold rows)``. Repeated rows and the order of rows never count.
A prediction without any statement has an empty result, and equals an empty gold.
"""

from dataclasses import dataclass

from dph.tasks.verifiers.sql.rules.base import MATCH, Comparison, Row, Rows, SQLRule
from dph.tasks.verifiers.sql.rules.difference import difference


@dataclass(frozen=True, slots=True)
class BIRDGold:
    """The gold's distinct rows: as a set, and in their order, by which a reason names one."""

    rows: Rows
    distinct: frozenset[Row]


def keep(rows: Rows, _: str) -> BIRDGold:
    """The distinct rows."""
    distinct = frozenset(rows)
    return BIRDGold(rows if len(distinct) == len(rows) else list(dict.fromkeys(rows)), distinct)


def compare(predicted: Rows, gold: BIRDGold) -> Comparison:
    """Whether the two sets of rows are equal."""
    if frozenset(predicted) == gold.distinct:
        return MATCH
    rows = list(dict.fromkeys(predicted))
    return Comparison(0.0, difference(rows, gold.rows, "distinct rows"))


BIRD = SQLRule(
    name="bird",
    keep=keep,
    compare=compare,
    distinct=True,
    nothing_is_empty=True,
)
