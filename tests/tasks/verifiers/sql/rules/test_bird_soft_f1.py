from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.sql.rules.bird import BIRD_SOFT_F1


def score(predicted, gold):
    return BIRD_SOFT_F1.compare(predicted, BIRD_SOFT_F1.keep(gold, "")).reward


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ([], [], Fraction(1)),
        ([], [(1,)], Fraction(0)),
        ([(1,)], [], Fraction(0)),
        ([(1, 2)], [(1, 2)], Fraction(1)),
        ([(2, 1)], [(1, 2)], Fraction(1)),  # anywhere in the row
        ([(1,), (1,)], [(1,)], Fraction(1)),  # repeats are dropped
        ([(1,)], [(1, 2)], Fraction(2, 3)),  # TP 1/2, FP 0, FN 1/2: P 1, R 1/2
        ([(1, 2)], [(1,)], Fraction(2, 3)),  # TP 1, FP 1, FN 0: P 1/2, R 1
        ([(2,), (1,)], [(1,), (2,)], Fraction(0)),  # the order of rows counts
        ([(1,), (5,)], [(1,), (2,)], Fraction(1, 2)),  # TP 1, FP 1, FN 1
        ([(1,)], [(1,), (2,), (3,)], Fraction(1, 2)),  # TP 1, FP 0, FN 2: P 1, R 1/3
    ],
)
def test_cells_are_counted_by_hand(predicted, gold, expected):
    assert score(predicted, gold) == pytest.approx(float(expected))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5))
def test_a_result_agrees_with_itself(rows):
    assert score(rows, rows) == 1.0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5),
    st.lists(st.tuples(st.integers(0, 3)), max_size=5),
)
def test_the_score_lies_between_0_and_1(predicted, gold):
    assert 0.0 <= score(predicted, gold) <= 1.0
