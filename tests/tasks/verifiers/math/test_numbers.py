import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.math.arithmetic import read_arithmetic
from dph.tasks.verifiers.math.number import numbers_equal, read_number


def equal(answer, gold):
    return numbers_equal(read_number(answer), read_number(gold))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", Fraction(5)),
        ("073", Fraction(73)),
        ("-1,234.50", Fraction(-2469, 2)),
        ("1{,}000", Fraction(1000)),
        (".5", Fraction(1, 2)),
        ("9.", Fraction(9)),
        (r"\$18.90", Fraction(189, 10)),
        (r"\frac{-3}{4}", Fraction(-3, 4)),
        (r"-\frac{3}{-4}", Fraction(3, 4)),
        ("- 3 / 4", Fraction(-3, 4)),
        (r"50\%", Fraction(50)),
        ("1e5", Fraction(100_000)),
        ("6.7E-5", Fraction(67, 10**6)),
        (r"3 \times 10^{8}", Fraction(3 * 10**8)),
        (r"-2.5\cdot10^3", Fraction(-2500)),
    ],
)
def test_numbers_are_read_exactly(text, value):
    assert read_number(text).value == value


@pytest.mark.parametrize(
    "text", ["", "x", "1,2", "1,23", "1/0", r"\frac{1}{0}", "1 2", "1e5000", "2^3", "9" * 201, "٣"]
)
def test_what_is_no_number_is_left_to_others(text):
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("same", "cases"),
    [
        (True, [("0.5", r"\frac{1}{2}"), ("0.333333", "1/3"), (r"5\%", "5"), (r"5\%", "0.05")]),
        (True, [("0.05", r"5\%"), (r"50\%", r"\frac{1}{2}")]),
        (False, [("0.3333", "1/3"), ("0.33", "1/3"), ("0.0000003", "0.00000001")]),
        (False, [("0.00001", "0.0000101"), ("50", "0.5"), ("0.5", "50"), (r"500\%", "5")]),
        (False, [(r"500\%", r"5\%"), ("1", r"100\%")]),
    ],
)
def test_what_the_same_number_is(same, cases):
    for answer, gold in cases:
        assert equal(answer, gold) is same


@given(st.fractions(max_denominator=10**6).filter(bool))
def test_a_fraction_equals_itself_and_nothing_near_it(value):
    def spell(number):
        return rf"\frac{{{number.numerator}}}{{{number.denominator}}}"

    gold = spell(value)
    assert equal(gold, gold)
    for wrong in (value * 100, value / 100, value + 1, value * Fraction(101, 100), -value):
        assert not equal(spell(wrong), gold)


@given(st.decimals(places=8, min_value="0.00000001", max_value=10**9))
def test_a_decimal_equals_nothing_near_it(value):
    gold = f"{value:f}"
    assert equal(gold, gold)
    for wrong in (value * 100, value + 1, value * 101 / 100):
        assert not equal(f"{wrong:f}", gold)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 - 2 - 3", -4),
        ("2 + 3 * 4", 14),
        ("8 / 2 / 2", 2),
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^{-1}", Fraction(1, 2)),
        ("2^-1", Fraction(1, 2)),
        (r"2 \cdot 3 \times 4 \div 8", 3),
        (r"\frac{1 + 2}{4} - .25", Fraction(1, 2)),
        (r"\sqrt{\frac{4}{9}}", Fraction(2, 3)),
        ("--3", 3),
        ("2(3)", 6),
        (r"2\frac{1}{2}", Fraction(5, 2)),
        ("5!", 120),
        (r"\binom{5}{2}", 10),
        ("2^{65}", 2**65),
        (r"1,200 + 1{,}000", 2200),
    ],
)
def test_expressions_of_numbers_have_their_exact_value(text, value):
    assert read_arithmetic(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "2x",
        "1/2(3)",
        r"2\frac{3}{2}",
        "1,2",
        "3!!",
        "0.5!",
        "(-3)!",
        "50%",
        "2^3^2",
        "2^{0.5}",
        "2^{200000}",
        "7000!",
        "(1,200)",
        r"\sqrt{2}",
        r"\sqrt{-1}",
        "1/0",
        "1/(2-2)",
        "(1",
        "1)",
        "(1}",
        "1 +",
        "10 m",
        r"\fraction{1}{2}",
        "1" * 300,
        "*".join(["9" * 90] * 2) + "^600",
        "(" * 90 + "1" + ")" * 90 + "+" + "(" * 90,
    ],
)
def test_anything_else_has_none(text):
    assert read_arithmetic(text) is None


SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
VALUED = st.recursive(
    st.integers(0, 99).map(lambda number: (str(number), number)),
    lambda inner: st.builds(
        lambda one, sign, other: (f"({one[0]}{sign}{other[0]})", SIGNS[sign](one[1], other[1])),
        inner,
        st.sampled_from("+-*"),
        inner,
    ),
    max_leaves=12,
)


@given(VALUED)
def test_the_value_is_that_of_the_same_expression_in_python(valued):
    text, value = valued
    assert len(text) > 200 or read_arithmetic(text) == value


@given(st.text("0123456789.+-*/^(){} x\\frac\\sqrt", max_size=60))
def test_no_text_is_an_error(text):
    assert isinstance(read_arithmetic(text), Fraction | None)
