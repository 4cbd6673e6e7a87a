from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.sql.rules import RULES
from dph.tasks.verifiers.sql.rules.bird import BIRD

rows = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", None])), max_size=5)
numbers = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5)


def reward(rule, predicted, gold, sql="SELECT 1"):
    return RULES[rule].compare(predicted, RULES[rule].keep(gold, sql)).reward


BY_HAND = {
    # Columns are in order, and repeats do not count.
    "bird": [
        ([(1, "a")], [("a", 1)], 0),
        ([(1,), (1,)], [(1,)], 1),
        ([(2,), (1,)], [(1,), (2,)], 1),
        ([(1,)], [(1.0,)], 1),
        ([(1,)], [("1",)], 0),
        ([], [], 1),
        ([], [(None,)], 0),
    ],
    "bird_soft_f1": [
        ([], [], 1),
        ([], [(1,)], 0),
        ([(1,)], [], 0),
        ([(1, 2)], [(1, 2)], 1),
        ([(2, 1)], [(1, 2)], 1),  # anywhere in the row
        ([(1,), (1,)], [(1,)], 1),  # repeats are dropped
        ([(1,)], [(1, 2)], Fraction(2, 3)),  # TP 1/2, FP 0, FN 1/2: P 1, R 1/2
        ([(1, 2)], [(1,)], Fraction(2, 3)),  # TP 1, FP 1, FN 0: P 1/2, R 1
        ([(2,), (1,)], [(1,), (2,)], 0),  # the order of rows counts
        ([(1,), (5,)], [(1,), (2,)], Fraction(1, 2)),  # TP 1, FP 1, FN 1
        ([(1,)], [(1,), (2,), (3,)], Fraction(1, 2)),  # TP 1, FP 0, FN 2: P 1, R 1/3
    ],
    # Matched columns over the product of the widths, at most 0.8 unless Spider's rule holds.
    "cartesian": [
        ([("a", 1), ("b", 2)], [(2, "b"), (1, "a")], 1),
        ([(1, "x")], [(1, "a")], 0.8 * 1 / 4),
        ([(1, "a", "z")], [(1, "a")], 0.8 * 4 / 6),
        ([(1,)], [(1, "a")], 0.8 * 1 / 2),
        ([(7,)], [(1,)], 0),
        ([], [], 1),
        ([], [(1,)], 0),
        ([(1,)], [], 0),
        # How it is gamed: values need not belong together, rows may be repeated.
        ([(1, "b"), (2, "a")], [(1, "a"), (2, "b")], 0.8),
        ([(1,), (1,), (1,)], [(1,)], 0.8),
        ([(1,)], [(1, 1)], 0.8),  # a predicted column may serve several of the gold's
    ],
}


@pytest.mark.parametrize("rule", BY_HAND)
def test_rewards_are_those_by_hand(rule):
    for predicted, gold, expected in BY_HAND[rule]:
        assert reward(rule, predicted, gold) == pytest.approx(float(expected)), (predicted, gold)


@given(rows, rows)
def test_birds_rule_is_equality_of_sets(predicted, gold):
    assert reward("bird", predicted, gold) == float(set(predicted) == set(gold))


def test_birds_reason_counts_distinct_rows():
    compared = BIRD.compare([(1,), (1,), (3,)], BIRD.keep([(1,)], ""))
    assert compared.reason == "2 distinct rows, the gold has 1: (3) is too much"


@given(numbers, numbers.map(lambda some: [row[:1] for row in some]))
def test_a_soft_score_lies_between_0_and_1_and_a_result_agrees_with_itself(predicted, gold):
    assert 0.0 <= reward("bird_soft_f1", predicted, gold) <= 1.0
    assert reward("bird_soft_f1", predicted, predicted) == 1.0


def test_rows_in_another_order_than_the_golds_earn_only_the_partial_credit():
    assert reward("cartesian", [(2,), (1,)], [(1,), (2,)], "SELECT a FROM t ORDER BY a") == 0.8
    assert reward("cartesian", [(2,), (1,)], [(1,), (2,)]) == 1.0
