import pytest

from dph.tasks.verifiers.sql.rules.cartesian import CARTESIAN


def reward(predicted, gold, sql="SELECT 1"):
    return CARTESIAN.compare(predicted, CARTESIAN.keep(gold, sql)).reward


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ([("a", 1), ("b", 2)], [(2, "b"), (1, "a")], 1.0),  # Spider's rule
        ([(1, "x")], [(1, "a")], 0.8 * 1 / 4),
        ([(1, "a", "z")], [(1, "a")], 0.8 * 4 / 6),
        ([(1,)], [(1, "a")], 0.8 * 1 / 2),
        ([(7,)], [(1,)], 0.0),
        ([], [], 1.0),
        ([], [(1,)], 0.0),
        ([(1,)], [], 0.0),
        # How it is gamed: values need not belong together, rows may be repeated.
        ([(1, "b"), (2, "a")], [(1, "a"), (2, "b")], 0.8),
        ([(1,), (1,), (1,)], [(1,)], 0.8),
        # A predicted column may serve several of the gold's.
        ([(1,)], [(1, 1)], 0.8 * 4 / 2),
    ],
)
def test_matched_columns_over_the_product(predicted, gold, expected):
    assert reward(predicted, gold) == pytest.approx(min(expected, 0.8) if expected != 1.0 else 1.0)


def test_rows_in_another_order_than_the_golds_earn_only_the_partial_credit():
    assert reward([(2,), (1,)], [(1,), (2,)], "SELECT a FROM t ORDER BY a") == 0.8
    assert reward([(2,), (1,)], [(1,), (2,)]) == 1.0
