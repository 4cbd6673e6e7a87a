"""The DPH-RL paper's reward with partial credit for columns.

Source: Li et al., "The Choice of Divergence" (arXiv:2509.07430), its SQL reward: 1 for a match by
Spider's rule. Otherwise 0.8 * m^2 / (g * p) for g gold and p
predicted columns, m of the gold's with a predicted column of the same distinct values.

Easy to game: the order of rows, their number and how values belong together in rows never count
for the partial credit. One right column of one earns 0.8, with any number of rows repeated, and
every superset of the gold's columns some of it. Fit for studying reward hacking, not for training.
"""

from dataclasses import dataclass

from dph.tasks.verifiers.sql.rules import spider
from dph.tasks.verifiers.sql.rules.base import (
    MATCH,
    Comparison,
    OrderedRows,
    Rows,
    SQLRule,
    line,
)

_PARTIAL = 0.8


@dataclass(frozen=True, slots=True)
class CartesianGold:
    """The gold's rows, and the distinct values of each column."""

    match: OrderedRows
    columns: list[frozenset[object]]


def compare(predicted: Rows, gold: CartesianGold) -> Comparison:
    match = spider.compare(predicted, gold.match)
    if match.reward == 1.0:
        return MATCH
    columns = _columns(predicted)
    pairs = len(columns) * len(gold.columns)
    if not pairs:
        return Comparison(0.0, line("an empty result has no columns", match.reason))
    matched = sum(1 for column in gold.columns if column in set(columns))
    reward = min(matched * matched / pairs, 1.0) * _PARTIAL
    return Comparison(
        reward, line(f"{matched} of {len(gold.columns)} columns are right", match.reason)
    )


def keep(rows: Rows, sql: str) -> CartesianGold:
    return CartesianGold(spider.keep(rows, sql), _columns(rows))


def _columns(rows: Rows) -> list[frozenset[object]]:
    return [frozenset(column) for column in zip(*rows, strict=True)]


CARTESIAN = SQLRule(
    name="cartesian",
    keep=keep,
    compare=compare,
    rewrite_prediction=spider.rewrite_gold,
    text_errors="ignore",
)
