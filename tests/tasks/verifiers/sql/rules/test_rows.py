from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.sql.rules.spider import (
    SPIDER,
    OrderedRows,
    columns_match,
    compare,
    keep,
    rewrite_gold,
    rewrite_prediction,
)
from dph.tasks.verifiers.sql.rules.strict import STRICT, bags_equal, orders_rows, rows_equal

spider_cells = st.sampled_from([None, 0, 1, 1.0, 2, 10, "1", "a", b"a", 0.5])


def tables(columns):
    return st.lists(st.tuples(*[spider_cells] * columns), max_size=4)


two_tables = st.integers(1, 4).flatmap(lambda n: st.tuples(tables(n), tables(n)))


def shuffled(table):
    rows, _ = table
    orders = st.permutations(range(len(rows[0]))) if rows else st.just([])
    return st.tuples(st.just(rows), st.permutations(rows), orders).map(
        lambda drawn: (drawn[0], [tuple(row[i] for i in drawn[2]) for row in drawn[1]])
    )


def by_definition(gold, predicted, ordered):
    """The evaluator's rule, by trying every permutation of the columns."""
    if not gold and not predicted:
        return True
    if len(gold) != len(predicted) or len(gold[0]) != len(predicted[0]):
        return False

    def unordered(rows):
        return [tuple(sorted(row, key=lambda cell: str(cell) + str(type(cell)))) for row in rows]

    first, second = unordered(gold), unordered(predicted)
    if first != second if ordered else set(first) != set(second):
        return False
    for order in permutations(range(len(gold[0]))):
        moved = [tuple(row[i] for i in order) for row in predicted]
        if gold == moved if ordered else Counter(gold) == Counter(moved):
            return True
    return False


@given(two_tables | two_tables.flatmap(shuffled), st.booleans())
def test_it_agrees_with_trying_every_permutation(both, ordered):
    gold, predicted = both
    found = compare(predicted, OrderedRows(gold, ordered)).reward
    assert found == float(by_definition(gold, predicted, ordered))


BY_BOTH = [
    ([(1,), (1,), (2,)], [(1,), (2,), (2,)], 0, 0),
    ([(1,)], [(1,), (1,)], 0, 0),
    ([(1,)], [(1.0,)], 1, 1),
    ([(1,)], [("1",)], 0, 0),
    ([("a",)], [(b"a",)], 0, 0),
    ([(None,)], [(0,)], 0, 0),
    ([(None,)], [(None,)], 1, 1),
    ([(1,)], [(1, 1)], 0, 0),
    ([], [], 1, 1),
    ([], [(1,)], 0, 0),
]
"""A gold, a prediction, and the reward in a bag and in order."""


@pytest.mark.parametrize(
    ("gold", "predicted", "in_a_bag", "in_order"),
    [
        *BY_BOTH,
        ([(1, "a")], [("a", 1)], 1, 1),
        ([(1, "a"), (2, "b")], [("a", 1), ("b", 2)], 1, 1),
        ([(1, "a"), (2, "b")], [("b", 2), ("a", 1)], 1, 0),
        ([(1, "a"), (2, "b")], [("b", 1), ("a", 2)], 0, 0),
        # '1<' stands after '10', '1.0' before it: sorted by their text the two rows differ.
        ([(1, 10)], [(1.0, 10)], 0, 0),
        ([(1, 20)], [(1.0, 20)], 1, 1),
    ],
)
def test_bags_permuted_columns_and_quirks(gold, predicted, in_a_bag, in_order):
    assert compare(predicted, OrderedRows(gold, False)).reward == in_a_bag
    assert compare(predicted, OrderedRows(gold, True)).reward == in_order


def test_each_difference_has_its_reason():
    gold = OrderedRows([(1, 2), (3, 4)], False)
    ordered, none = OrderedRows(gold.rows, True), "no permutation of the columns fits"
    for rows, wanted, reason in [
        ([(1, 2)], gold, "1 rows, the gold has 2: (3, 4) is missing"),
        ([(1,), (2,)], gold, "1 columns, the gold has 2: got (1), expected (1, 2)"),
        ([(1, 2), (3, 5)], gold, "got (3, 5), expected (3, 4)"),
        ([(1, 2), (4, 3)], gold, f"{none}: got (4, 3), expected (3, 4)"),
        ([(1, 2), (3, 5)], ordered, "row 2: got (3, 5), expected (3, 4)"),
        ([(3, 4), (1, 2)], ordered, "another order: row 1: got (3, 4), expected (1, 2)"),
    ]:
        assert compare(rows, wanted).reason == reason


@pytest.mark.parametrize(
    ("sql", "spider", "strict"),
    [
        ("SELECT a FROM t ORDER BY a", True, True),
        ("select a from t order by a", True, True),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", True, False),
        ("SELECT 'order by'", True, False),
        ("SELECT a FROM t ORDER  BY a", False, True),
        ("SELECT a FROM t order\n by a", False, True),
        ("SELECT a FROM t UNION SELECT b FROM u ORDER /* x */ BY 1 LIMIT 2", False, True),
        ("SELECT a FROM t", False, False),
        ("WITH c AS (SELECT 1 ORDER BY 1) SELECT * FROM c", True, False),
        ("SELECT rank() OVER (ORDER BY a) FROM t", True, False),
        ("SELECT 'x order by y', \"order by\"", True, False),
        ("SELECT 1 -- ORDER BY 1", True, False),
    ],
)
def test_spider_looks_for_order_by_in_that_spelling_and_strict_outside_parentheses(
    sql, spider, strict
):
    assert keep([], sql).ordered is spider
    assert orders_rows(sql) is strict


def test_statements_are_rewritten_as_the_evaluator_does():
    assert rewrite_gold("a > = 1 AND b < = 2 OR c ! = 3") == "a >= 1 AND b <= 2 OR c != 3"
    assert rewrite_gold("year( CURDATE ( ) ) - 1") == "2020- 1"
    assert rewrite_gold("a = value AND 1") == "a = value AND 1"
    assert rewrite_prediction("a > = value AND value = b.value") == "a >= 1 AND 1 = b.1"
    assert rewrite_prediction("values_of 'a value' VALUE Value") == "1s_of 'a 1' VALUE Value"
    assert SPIDER.text_errors == "ignore"


def test_columns_are_matched_one_to_one_without_trying_permutations():
    rows = [tuple(i % 2 for _ in range(60)) for i in range(40)]
    assert compare(list(reversed(rows)), OrderedRows(rows, False)).reward == 1
    columns = list(zip(*rows, strict=True))
    assert columns_match(columns, columns)
    other = [*columns[:-1], tuple(1 - cell for cell in columns[-1])]
    assert not columns_match(columns, other)
    gold = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    odd = [(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert not columns_match(list(zip(*gold, strict=True)), list(zip(*odd, strict=True)))
    assert not columns_match([(1, 2), (1, 2)], [(1, 2), (3, 3)])
    assert not columns_match([(1, 2), (2, 1), (3, 3)], [(1, 2), (3, 3), (4, 4)])
    assert columns_match([(1, 2), (1, 2), (3, 3)], [(3, 3), (2, 1), (2, 1)])


near = 1 + 4e-10
strict_cells = st.sampled_from(
    [None, 1, near, 1 - 4e-10, 1 + 2e-9, 2, 2 * near, "1", b"1", -1.0, 0, 2.0**-50, -(2.0**-52)]
)
bags = st.lists(st.tuples(strict_cells, strict_cells), max_size=4)


def strict_reward(predicted, gold, sql="SELECT 1"):
    return STRICT.compare(predicted, STRICT.keep(gold, sql)).reward


@given(bags, bags)
def test_bags_are_equal_when_some_pairing_is(ones, others):
    pairings = permutations(others) if len(ones) == len(others) else ()
    expected = any(all(map(rows_equal, ones, pairing)) for pairing in pairings)
    assert bags_equal(ones, others) is expected


@given(st.data(), bags)
def test_rows_moved_by_less_than_the_tolerance_are_equal(data, rows):
    moved = [
        tuple(cell * near if isinstance(cell, float) else cell for cell in row) for row in rows
    ]
    assert strict_reward(data.draw(st.permutations(moved)), rows) == 1


@pytest.mark.parametrize(
    ("predicted", "gold", "in_a_bag", "in_order"),
    [
        *BY_BOTH,
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], 1, 0),
        ([("a", 1)], [(1, "a")], 0, 0),
        ([(0.1 + 0.2,)], [(0.3,)], 1, 1),
        ([(1.0,)], [(1 + 1e-8,)], 0, 0),
        ([(10**18,)], [(10**18 + 1,)], 0, 0),  # whole numbers have no tolerance
        ([(float("inf"),)], [(float("inf"),)], 1, 1),
        ([(float("inf"),)], [(1e308,)], 0, 0),
        ([(0.0,)], [(1e-300,)], 0, 0),
        ([(0,)], [(0.1 + 0.2 - 0.3,)], 1, 1),
        ([(1.1 * 3 - 3.3,)], [(0.1 + 0.2 - 0.3,)], 1, 1),  # zero twice, by two ways of rounding
        ([(0.1 * 7 - 0.7, "a"), (5, "b")], [(5.0, "b"), (0.0, "a")], 1, 0),
        ([(200.3 - 200.1 - 0.2,)], [(0,)], 1, 1),
        ([(0,)], [(1e-13,)], 0, 0),  # a tiny value is no remains of a subtraction
        ([(1e-13,)], [(3e-13,)], 0, 0),
        ([(0,)], [(1e-6,)], 0, 0),
        ([(0,)], [(2.0**-30,)], 0, 0),
    ],
)
def test_what_is_equal(predicted, gold, in_a_bag, in_order):
    assert strict_reward(predicted, gold) == in_a_bag
    assert strict_reward(predicted, gold, "SELECT a FROM t ORDER BY a") == in_order


def test_many_rows_within_the_tolerance_are_paired_in_reasonable_time():
    rows = [(1 + i * 1e-12, float(i)) for i in range(600)]
    moved = [(a + 1e-12, b) for a, b in reversed(rows)]
    assert strict_reward(moved, rows) == 1
