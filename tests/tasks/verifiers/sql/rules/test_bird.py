import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.sql.rules.bird import BIRD

rows = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", None])), max_size=5)


def reward(predicted, gold):
    return BIRD.compare(predicted, BIRD.keep(gold, "")).reward


@given(rows, rows)
def test_it_is_equality_of_sets(predicted, gold):
    assert reward(predicted, gold) == float(set(predicted) == set(gold))


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ([(1, "a")], [("a", 1)], 0),
        ([(1,), (1,)], [(1,)], 1),
        ([(2,), (1,)], [(1,), (2,)], 1),
        ([(1,)], [(1.0,)], 1),
        ([(1,)], [("1",)], 0),
        ([], [], 1),
        ([], [(None,)], 0),
    ],
)
def test_columns_are_in_order_and_repeats_do_not_count(predicted, gold, expected):
    assert reward(predicted, gold) == expected


def test_the_reason_counts_distinct_rows():
    compared = BIRD.compare([(1,), (1,), (3,)], BIRD.keep([(1,)], ""))
    assert compared.reason == "2 distinct rows, the gold has 1: (3) is too much"
