"""BIRD's execution accuracy: the same set of rows, the columns in the same order.

Source: Li et al., "Can LLM Already Serve as A Database Interface?" (BIRD), section 4: EX compares
``set(predicted rows)`` with ``set(gold rows)``. Repeated rows and the order of rows never count.
A prediction without any statement has an empty result, and equals an empty gold.
"""

from dph.verifiers.sql.rules.base import MATCH, Comparison, Row, Rows, SQLRule, sizes


def compare(predicted: Rows, gold: frozenset[Row]) -> Comparison:
    """Whether the two sets of rows are equal."""
    rows = frozenset(predicted)
    if rows == gold:
        return MATCH
    return Comparison(0.0, sizes(len(rows), len(gold), "distinct rows"))


BIRD = SQLRule(
    name="bird",
    keep=lambda rows, _: frozenset(rows),
    compare=compare,
    distinct=True,
    nothing_is_empty=True,
)
