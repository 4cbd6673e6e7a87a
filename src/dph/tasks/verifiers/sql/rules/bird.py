"""BIRD's execution accuracy: the same set of rows, the columns in the same order.

Source: Li et al., "Can LLM Already Serve as A Database Interface?" (BIRD), section 4: EX compares
``set(predicted rows)`` with ``set(gold rows)``. Repeated rows and the order of rows never count.
A prediction without any statement has an empty result, and equals an empty gold.
"""

from dph.tasks.verifiers.sql.rules.base import (
    MATCH,
    Comparison,
    Row,
    Rows,
    SQLRule,
    difference,
    line,
)

# Source: the soft F1 score of BIRD mini-dev. Repeated rows are dropped; the i-th predicted row
# meets the i-th gold row, whatever they hold. Of the c columns of a gold row, the predicted cells
# found in it (anywhere) give TP, those not found FP, the gold's cells missing in the prediction
# FN, each divided by c; a row without a partner counts 1 as FP or FN. F1 = 2 P R / (P + R).
#
# The order of rows counts even where the gold has none, and a row cut to its easy columns scores.


def compare_soft_f1(predicted: Rows, gold: Rows) -> Comparison:
    """The F1 of cells; two empty results score 1."""
    rows = list(dict.fromkeys(predicted))
    if not rows and not gold:
        return MATCH
    true, only_predicted, only_gold = 0.0, 0.0, 0.0
    for row, wanted in zip(rows, gold, strict=False):
        found = sum(1 for cell in row if cell in wanted)
        missing = sum(1 for cell in wanted if cell not in row)
        true += found / len(wanted)
        only_predicted += (len(row) - found) / len(wanted)
        only_gold += missing / len(wanted)
    only_predicted += max(len(rows) - len(gold), 0)
    only_gold += max(len(gold) - len(rows), 0)
    precision = true / (true + only_predicted) if true + only_predicted > 0 else 0.0
    recall = true / (true + only_gold) if true + only_gold > 0 else 0.0
    both = precision + recall
    score = 2 * precision * recall / both if both > 0 else 0.0
    if score == 1.0:
        return MATCH
    how = difference(rows, gold, "distinct rows", in_order=True)
    return Comparison(score, line(f"soft F1 {score:.4f}", how))


BIRD_SOFT_F1 = SQLRule(
    name="bird_soft_f1",
    keep=lambda rows, _: list(dict.fromkeys(rows)),
    compare=compare_soft_f1,
    distinct=True,
    nothing_is_empty=True,
)


def keep(rows: Rows, _: str) -> tuple[Rows, frozenset[Row]]:
    """The gold's distinct rows: in their order, by which a reason names one, and as a set."""
    distinct = frozenset(rows)
    return rows if len(distinct) == len(rows) else list(dict.fromkeys(rows)), distinct


def compare(predicted: Rows, gold: tuple[Rows, frozenset[Row]]) -> Comparison:
    wanted, distinct = gold
    if frozenset(predicted) == distinct:
        return MATCH
    rows = list(dict.fromkeys(predicted))
    return Comparison(0.0, difference(rows, wanted, "distinct rows"))


BIRD = SQLRule(name="bird", keep=keep, compare=compare, distinct=True, nothing_is_empty=True)
