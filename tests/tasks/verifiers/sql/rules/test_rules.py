from fractions import Fraction
from typing import get_args

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import SettingsError
from dph.recipe.data import DataSettings
from dph.records import Outcome
from dph.tasks.verifiers.sql.rules import RULES, sql_rule
from dph.tasks.verifiers.sql.rules.base import LONGEST, difference
from dph.tasks.verifiers.sql.rules.bird import BIRD
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier
from shared_data import SOME_AND_ALL, shared_data

OFFICIAL = {
    "spider": ("spider_official_keep_distinct", "spider_order_fragile"),
    "bird": ("bird_ex", "bird_order_fragile"),
    "bird_soft_f1": ("bird_soft_f1", "bird_order_fragile"),
    "cartesian": ("dph_reference_detail", "spider_order_fragile"),
}


def judge(rule, rows, predicted):
    databases = shared_data("spider/database")
    pairs = [
        SQLPair(f"{row['db_id']}/{row['db_id']}.sqlite", row["gold_sql"], row[predicted])
        for row in rows
    ]
    with SQLVerifier(databases=databases, rule=rule, workers=2, timeout=30.0) as verifier:
        return [judged.verdict for judged in verifier.judge(pairs)]


@SOME_AND_ALL
@pytest.mark.parametrize("rule", list(OFFICIAL))
def test_every_official_verdict_on_real_predictions_is_met(rule, every):
    column, fragile = OFFICIAL[rule]
    table = pq.read_table(shared_data("spider/scored_predictions_examples.parquet"))
    rows = [row for row in table.to_pylist() if not row[fragile]]
    assert len(rows) > 2000
    rows = rows[::every]
    verdicts = judge(rule, rows, "pred_sql")
    # The official scores are stored as 32-bit numbers, rounded to six digits.
    different = [
        (row["db_id"], row["pred_sql"], verdict)
        for row, verdict in zip(rows, verdicts, strict=True)
        if abs(verdict.reward - row[column]) > 1e-6
    ]
    assert different == []


@SOME_AND_ALL
@pytest.mark.parametrize("rule", list(RULES))
def test_the_gold_is_right_by_every_rule(rule, every):
    rows = pq.read_table(shared_data("spider/dev.parquet")).to_pylist()[::every]
    verdicts = judge(rule, rows, "gold_sql")
    assert [v.outcome for v in verdicts] == [Outcome.CORRECT] * len(rows)


def test_a_rule_is_found_by_its_name_and_recipes_know_them():
    assert all(sql_rule(name).name == name for name in RULES)
    with pytest.raises(SettingsError, match="'birds'; it is one of spider, bird"):
        sql_rule("birds")
    assert get_args(DataSettings.model_fields["sql_rule"].annotation) == tuple(RULES)


any_cells = st.none() | st.integers(0, 3) | st.sampled_from([0.5, "a", "b\0\n\u202e\ud800", b"\0"])
widths = st.shared(st.integers(1, 3), key="width")
drawn_results = st.lists(widths.flatmap(lambda width: st.tuples(*[any_cells] * width)), max_size=4)


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


def test_of_an_order_long_rows_and_texts_the_first_difference_is_named():
    rows = [(1,), (2,), (3,)]
    assert difference([(1,), (3,), (2,)], rows, in_order=True) == (
        "another order: row 2: got (3), expected (2)"
    )
    assert difference([(1,), (2,), (4,)], rows, in_order=True) == ("row 3: got (4), expected (3)")
    row = tuple(range(30))
    assert difference([(*row, "x")], [(*row, "y")]) == "column 31: got 'x', expected 'y'"
    text = "a" * 900
    assert difference([(f"{text}x{text}",)], [(f"{text}y{text}",)]) == (
        f"column 1: got '...{'a' * 8}x{'a' * 15}...', expected '...{'a' * 8}y{'a' * 15}...'"
    )

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
@given(predicted=drawn_results, gold=drawn_results, ordered=st.booleans())
def test_every_wrong_answer_has_a_reason_in_a_line_by_every_rule(name, predicted, gold, ordered):
    rule = RULES[name]
    compared = rule.compare(predicted, rule.keep(gold, "ORDER BY" if ordered else ""))
    assert (compared.reason == "") == (compared.reward == 1.0)
    assert len(compared.reason) <= LONGEST
    assert compared.reason.isprintable()


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


@given(numbers, numbers.map(lambda some: [row[:1] for row in some]))
def test_a_soft_score_lies_between_0_and_1_and_a_result_agrees_with_itself(predicted, gold):
    assert 0.0 <= reward("bird_soft_f1", predicted, gold) <= 1.0
    assert reward("bird_soft_f1", predicted, predicted) == 1.0


def test_orders_and_repeats_are_told():
    compared = BIRD.compare([(1,), (1,), (3,)], BIRD.keep([(1,)], ""))
    assert compared.reason == "2 distinct rows, the gold has 1: (3) is too much"
    assert reward("cartesian", [(2,), (1,)], [(1,), (2,)], "SELECT a FROM t ORDER BY a") == 0.8
    assert reward("cartesian", [(2,), (1,)], [(1,), (2,)]) == 1.0
