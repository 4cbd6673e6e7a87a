"""Spider's execution match on one database, as its official test-suite evaluator judges it.

Source: Zhong et al., "Semantic Evaluation for Text-to-SQL with Distilled Test Suites", and the
evaluator's behaviour with ``--etype exec --keep_distinct``: the same bag of rows under some
permutation of the columns. Its quirks are kept:

* Rows have to come in the same order when the gold holds "order by" anywhere, in exactly that
  spelling but for case: also in a subquery or a string, and not with two blanks.
* Two empty results are equal, whatever their columns.
* Before columns are permuted, each row is sorted by the text of its cells, type last. So 1 and
  1.0 are equal, but the results differ where that text moves them to other places in their rows.
* ``> =``, ``< =``, ``! =`` are joined, and ``YEAR(CURDATE())`` is 2020.
* In a prediction 1 takes the place of every lower-case ``value``, also in a longer word and in a
  literal, so a right answer that names a column ``value`` gets nothing.
* Bytes that are not UTF-8 are dropped from text.
* A prediction without any statement has an empty result.

Differs from the evaluator: it draws 20 rows to narrow the permutations down and tries what is
left; here they are searched column by column, which ends with the same answer, sooner.
"""

import re
from collections.abc import Hashable, Sequence

from dph.tasks.verifiers.sql.rules.base import (
    MATCH,
    Comparison,
    OrderedRows,
    Row,
    Rows,
    SQLRule,
    bag,
    difference,
    line,
)

_THIS_YEAR = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)
# Half of the time of a comparison goes into the key that rows are sorted by.
_TYPE_TEXT: dict[type, str] = {kind: str(kind) for kind in (int, float, str, bytes, type(None))}
_SPLIT_OPERATORS = (("> =", ">="), ("< =", "<="), ("! =", "!="))


def rewrite_gold(sql: str) -> str:
    """The statement as the evaluator runs it."""
    for split, joined in _SPLIT_OPERATORS:
        sql = sql.replace(split, joined)
    return _THIS_YEAR.sub("2020", sql) if "(" in sql else sql


def rewrite_prediction(sql: str) -> str:
    """The same, and ``value``, which stands for a literal that a model did not predict, is 1."""
    return rewrite_gold(sql.replace("value", "1"))


def keep(rows: Rows, sql: str) -> OrderedRows:
    """The gold's rows and whether the evaluator takes its statement for an ordered one."""
    return OrderedRows(rows, "order by" in rewrite_gold(sql).lower())


def compare(predicted: Rows, gold: OrderedRows) -> Comparison:
    """True if the results are equal under some permutation of the columns."""
    rows = gold.rows
    if not predicted and not rows:
        return MATCH
    if len(predicted) != len(rows) or len(predicted[0]) != len(rows[0]):
        return Comparison(0.0, difference(predicted, rows))
    if not _same_unordered(rows, predicted, ordered=gold.ordered):
        how = difference(predicted, rows, in_order=gold.ordered, key=_unordered)
        return Comparison(0.0, how)
    wanted, found = list(zip(*rows, strict=True)), list(zip(*predicted, strict=True))
    if bag(wanted) == bag(found) if gold.ordered else columns_match(wanted, found):
        return MATCH
    how = difference(predicted, rows, in_order=gold.ordered)
    return Comparison(0.0, line("no permutation of the columns fits", how))


def columns_match(gold: Sequence[Row], predicted: Sequence[Row]) -> bool:
    """True if a permutation of the predicted columns gives the gold's bag of rows.

    A depth-first search: column by column of the gold, every predicted column that holds the same
    bag of cells and keeps the bags of row beginnings equal.
    """
    bags = [bag(column) for column in predicted]
    gold_bags = [bag(column) for column in gold]
    places = [[i for i, each in enumerate(bags) if each == wanted] for wanted in gold_bags]
    if all(len(place) == 1 for place in places):  # one permutation at most
        order = [place for (place,) in places]
        permuted = zip(*[predicted[place] for place in order], strict=True)
        return len(set(order)) == len(order) and bag(permuted) == bag(zip(*gold, strict=True))
    start = (0,) * len(gold[0])
    return _extend(gold, predicted, bags, start, start, frozenset())


def _extend(
    gold: Sequence[Row],
    predicted: Sequence[Row],
    bags: Sequence[dict[Hashable, int]],
    gold_begins: Row,
    begins: Row,
    used: frozenset[int],
) -> bool:
    """True if the columns from ``len(used)`` on can be matched, too.

    ``gold_begins`` and ``begins`` number the beginnings of the rows: equal ones alike.
    """
    if len(used) == len(gold):
        return True
    column = gold[len(used)]
    wanted_bag = bag(column)
    gold_pairs = list(zip(gold_begins, column, strict=True))
    wanted = bag(gold_pairs)
    numbers = {pair: number for number, pair in enumerate(wanted)}
    tried: set[Row] = set()
    for index, candidate in enumerate(predicted):
        if index in used or bags[index] != wanted_bag or candidate in tried:
            continue
        tried.add(candidate)
        pairs = list(zip(begins, candidate, strict=True))
        if bag(pairs) == wanted and _extend(
            gold,
            predicted,
            bags,
            tuple(map(numbers.__getitem__, gold_pairs)),
            tuple(map(numbers.__getitem__, pairs)),
            used | {index},
        ):
            return True
    return False


def _same_unordered(gold: Rows, predicted: Rows, *, ordered: bool) -> bool:
    if len(gold[0]) == 1:
        return gold == predicted if ordered else set(gold) == set(predicted)
    sorted_gold, sorted_predicted = map(_unordered, gold), map(_unordered, predicted)
    if ordered:
        return all(map(tuple.__eq__, sorted_gold, sorted_predicted))
    return set(sorted_gold) == set(sorted_predicted)


def _unordered(row: Row) -> Row:
    return tuple(sorted(row, key=lambda cell: f"{cell}{_TYPE_TEXT[type(cell)]}"))


SPIDER = SQLRule(
    name="spider",
    keep=keep,
    compare=compare,
    rewrite_gold=rewrite_gold,
    rewrite_prediction=rewrite_prediction,
    text_errors="ignore",
    nothing_is_empty=True,
)


# Source: Li et al., "The Choice of Divergence" (arXiv:2509.07430), its SQL reward: 1 for a match by
# Spider's rule. Otherwise 0.8 * m^2 / (g * p) for g gold and p predicted columns, m of the gold's
# with a predicted column of the same distinct values.
#
# Easy to game: the order of rows, their number and how values belong together in rows never count
# for the partial credit. One right column of one earns 0.8, with any number of rows repeated, and
# every superset of the gold's columns some of it. Fit to study reward hacking, not to train with.

_PARTIAL = 0.8


Columns = list[frozenset[object]]
"""The distinct values of each column."""


def compare_columns(predicted: Rows, gold: tuple[OrderedRows, Columns]) -> Comparison:
    rows, wanted = gold
    match = compare(predicted, rows)
    if match.reward == 1.0:
        return MATCH
    columns = _columns(predicted)
    pairs = len(columns) * len(wanted)
    if not pairs:
        return Comparison(0.0, line("an empty result has no columns", match.reason))
    matched = sum(1 for column in wanted if column in set(columns))
    reward = min(matched * matched / pairs, 1.0) * _PARTIAL
    return Comparison(reward, line(f"{matched} of {len(wanted)} columns are right", match.reason))


def keep_columns(rows: Rows, sql: str) -> tuple[OrderedRows, Columns]:
    return keep(rows, sql), _columns(rows)


def _columns(rows: Rows) -> Columns:
    return [frozenset(column) for column in zip(*rows, strict=True)]


CARTESIAN = SQLRule(
    name="cartesian",
    keep=keep_columns,
    compare=compare_columns,
    rewrite_prediction=rewrite_gold,
    text_errors="ignore",
)
