import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.sql.rules import RULES
from dph.tasks.verifiers.sql.rules.base import LONGEST, difference

cells = st.none() | st.integers(0, 3) | st.sampled_from([0.5, "a", "b\0\n\u202e\ud800", b"\0"])
widths = st.shared(st.integers(1, 3), key="width")
results = st.lists(widths.flatmap(lambda width: st.tuples(*[cells] * width)), max_size=4)


@pytest.mark.parametrize(
    ("predicted", "gold", "reason"),
    [
        ([("1",)], [(1,)], "got ('1'), expected (1)"),
        ([(None,)], [(0,)], "got (NULL), expected (0)"),
        ([(1,)], [(1,), (2,)], "1 rows, the gold has 2: (2) is missing"),
        ([(1,), (2,)], [(1,)], "2 rows, the gold has 1: (2) is too much"),
        ([(1,), (1,)], [(1,)], "2 rows, the gold has 1: (1) came 2 times, 1 expected"),
        ([(1, 2)], [(1,)], "2 columns, the gold has 1: got (1, 2), expected (1)"),
        ([], [(1,)], "0 rows, the gold has 1: (1) is missing"),
    ],
)
def test_a_reason_says_what_came_and_what_was_wanted(predicted, gold, reason):
    assert difference(predicted, gold) == reason


def test_of_an_order_the_first_row_that_is_another_one_is_named():
    rows = [(1,), (2,), (3,)]
    assert difference([(1,), (3,), (2,)], rows, in_order=True) == (
        "another order: row 2: got (3), expected (2)"
    )
    assert difference([(1,), (2,), (4,)], rows, in_order=True) == ("row 3: got (4), expected (3)")


def test_of_long_rows_and_texts_the_place_is_shown_where_they_differ():
    row = tuple(range(30))
    assert difference([(*row, "x")], [(*row, "y")]) == "column 31: got 'x', expected 'y'"
    text = "a" * 900
    assert difference([(f"{text}x{text}",)], [(f"{text}y{text}",)]) == (
        f"column 1: got '...{'a' * 8}x{'a' * 15}...', expected '...{'a' * 8}y{'a' * 15}...'"
    )


def test_rows_within_a_tolerance_are_not_named():
    def near(one, other):
        return abs(one[0] - other[0]) < 0.1

    assert difference([(1.01,), (5.0,)], [(1.0,), (6.0,)], equal=near) == (
        "got (5.0), expected (6.0)"
    )


def test_results_of_a_million_rows_and_of_large_values_have_a_short_reason_at_once():
    rows = [(number,) for number in range(1_000_000)]
    assert difference([*rows[:-1], (0,)], rows) == "got (0), expected (999999)"
    large = [("x" * 10_000_000 + "\0", b"\xff" * 10_000_000)]
    assert len(difference(large, [(1, 2)])) <= LONGEST


@pytest.mark.parametrize("name", list(RULES))
@given(predicted=results, gold=results, ordered=st.booleans())
def test_every_wrong_answer_has_a_reason_in_a_line_by_every_rule(name, predicted, gold, ordered):
    rule = RULES[name]
    compared = rule.compare(predicted, rule.keep(gold, "ORDER BY" if ordered else ""))
    assert (compared.reason == "") == (compared.reward == 1.0)
    assert len(compared.reason) <= LONGEST
    assert compared.reason.isprintable()
