from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.sql.rules.strict import STRICT, bags_equal, orders_rows, rows_equal

near = 1 + 4e-10
cells = st.sampled_from(
    [None, 1, near, 1 - 4e-10, 1 + 2e-9, 2, 2 * near, "1", b"1", -1.0, 0, 2.0**-50, -(2.0**-52)]
)
bags = st.lists(st.tuples(cells, cells), max_size=4)


def reward(predicted, gold, sql="SELECT 1"):
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
    assert reward(data.draw(st.permutations(moved)), rows) == 1


@pytest.mark.parametrize(
    ("predicted", "gold", "in_a_bag", "in_order"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], 1, 0),
        ([("a", 1)], [(1, "a")], 0, 0),
        ([(1,), (1,)], [(1,)], 0, 0),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], 0, 0),
        ([(1,)], [(1.0,)], 1, 1),
        ([(1,)], [("1",)], 0, 0),
        ([("a",)], [(b"a",)], 0, 0),
        ([(None,)], [(0,)], 0, 0),
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
        ([(0,)], [(None,)], 0, 0),
        ([(1, 2)], [(1,)], 0, 0),
        ([], [], 1, 1),
        ([], [(1,)], 0, 0),
    ],
)
def test_what_is_equal(predicted, gold, in_a_bag, in_order):
    assert reward(predicted, gold) == in_a_bag
    assert reward(predicted, gold, "SELECT a FROM t ORDER BY a") == in_order


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT a FROM t order\n by a", True),
        ("SELECT a FROM t UNION SELECT b FROM u ORDER /* x */ BY 1 LIMIT 2", True),
        ("WITH c AS (SELECT 1 ORDER BY 1) SELECT * FROM c", False),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT rank() OVER (ORDER BY a) FROM t", False),
        ("SELECT 'x order by y', \"order by\"", False),
        ("SELECT 1 -- ORDER BY 1", False),
    ],
)
def test_only_an_order_outside_parentheses_counts(sql, ordered):
    assert orders_rows(sql) is ordered


def test_many_rows_within_the_tolerance_are_paired_in_reasonable_time():
    rows = [(1 + i * 1e-12, float(i)) for i in range(600)]
    moved = [(a + 1e-12, b) for a, b in reversed(rows)]
    assert reward(moved, rows) == 1
