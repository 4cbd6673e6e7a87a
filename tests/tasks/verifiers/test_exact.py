import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import DataError
from dph.records import Outcome, Problem
from dph.tasks.verifiers.exact import ExactVerifier, NumberVerifier, last_number


def grade(answer, response, verifier=None):
    problem = Problem(problem_id="n", prompt="?", answer={"answer": answer})
    (verdict,) = (verifier or NumberVerifier()).grade([problem], [response])
    assert verdict.reward == (verdict.outcome is Outcome.CORRECT)
    return verdict.outcome


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("42", 42), ("the answer is 42.", 42), ("1 then 2", 2), ("-3", -3), ("x=-3", -3)),
        *(("+3", 3), ("10-3", 3), ("(10)-3", 3), ("5 - 3", 3), ("\u22127", -7)),
        ("1,234,567.5", Fraction(12345675, 10)),
        *(("1,2,3", 3), ("12,34", 34), ("-1,2", 2), (".5", Fraction(1, 2))),
        *(("-.5", Fraction(-1, 2)), ("3/4", Fraction(3, 4)), ("-3 / 4", Fraction(-3, 4))),
        *(("3/-4", Fraction(-3, 4)), ("1.5/2", Fraction(3, 4)), ("2e3", 2000)),
        *(("2E-3", Fraction(1, 500)), ("-2.50e1", -25), ("$5 or 50%", 50), ("CO2", None)),
        ("version 1.2.3", Fraction(12, 10)),
        ("none", None),
        ("", None),
        ("٣", None),
    ],
)
def test_the_last_number_of_a_text(text, value):
    assert last_number(text) == value


@given(st.integers(), st.integers(min_value=1))
def test_a_written_fraction_is_read_back(top, bottom):
    assert last_number(f"so {top}/{bottom}") == Fraction(top, bottom)


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_commas_between_thousands_change_nothing(number):
    assert last_number(f"{number:,}") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_answer_is_the_decimal_it_is_written_as(number):
    assert grade(number, f"it is {number!r}") is Outcome.CORRECT


@pytest.mark.parametrize(
    ("outcome", "cases"),
    [
        (Outcome.CORRECT, [(7, "seven: 7"), ("1,000", "1000.00"), (0.5, "1/2")]),
        (Outcome.WRONG, [("1/3", "0.333333333333333333"), (7, "700"), (7, "7 or 8"), (7, "-7")]),
        (Outcome.NO_ANSWER, [(7, "seven")]),
        (Outcome.INVALID, [(7, "7/0"), (7, "7/0e9")]),
        (Outcome.BAD_GOLD, [("seven", "7"), ("7 8", "8"), ("1/0", "8"), ("1e9999", "8")]),
        (Outcome.BAD_GOLD, [(None, "8")]),
        (Outcome.OVER_LIMIT, [(7, "1e999999999"), (7, "1e-999999999"), (7, "1e" + "9" * 100_000)]),
        (Outcome.OVER_LIMIT, [(7, "7." + "0" * 1000)]),
    ],
)
def test_only_the_same_rational_is_correct(outcome, cases):
    for answer, response in cases:
        assert grade(answer, response) is outcome


@pytest.mark.parametrize(
    "piece", ["9", "1 ", "1,", "111,", "1/", "-", ".", "1.", "e", "1e", "x1", "1e9 ", ",1", "+1-"]
)
def test_hostile_text_is_read_in_time_that_grows_with_its_length(piece):
    started = time.thread_time()
    grade(7, piece * 100_000)
    assert time.thread_time() - started < 5


@pytest.mark.parametrize(
    ("answer", "response", "outcome"),
    [
        ("Paris", " Paris\n", Outcome.CORRECT),
        ("Paris", "paris", Outcome.WRONG),
        ("Paris", "Paris.", Outcome.WRONG),
        (" two  words ", "two  words", Outcome.CORRECT),
        ("two  words", "two words", Outcome.WRONG),
        (7, "7", Outcome.CORRECT),
        ("x", " ", Outcome.NO_ANSWER),
    ],
)
def test_only_the_same_text_is_correct(answer, response, outcome):
    assert grade(answer, response, ExactVerifier()) is outcome


def test_a_problem_without_an_answer_is_an_error_and_the_reason_of_another_one_in_a_line():
    with pytest.raises(DataError, match="'answer' in problem 'e'"):
        ExactVerifier().grade([Problem(problem_id="e", prompt="?")], ["x"])
    problem = Problem(problem_id="n", prompt="?", answer={"answer": "12"})
    (verdict,) = NumberVerifier().grade([problem], ["9" * 900])
    assert verdict.reason == f"{'9' * 50}... (900 characters) is not 12"
    problem = Problem(problem_id="e", prompt="?", answer={"answer": "y" * 1000})
    (verdict,) = ExactVerifier().grade([problem], ["a\n" + "x" * 1000])
    assert verdict.reason == f"'a\\n{'x' * 58}' is not '{'y' * 60}'"
