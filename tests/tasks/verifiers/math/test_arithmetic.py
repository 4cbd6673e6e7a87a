import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.math.arithmetic import read_arithmetic


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
        lambda one, sign, other: (
            f"({one[0]}{sign}{other[0]})",
            SIGNS[sign](one[1], other[1]),
        ),
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
