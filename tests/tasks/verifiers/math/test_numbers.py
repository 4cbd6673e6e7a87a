import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.tasks.verifiers.math.answer import (
    LONGEST_ANSWER,
    Place,
    clean_answer,
    find_answer,
    has_box,
    last_boxes,
    same_spelling,
    trim_answer,
)
from dph.tasks.verifiers.math.number import numbers_equal, read_arithmetic, read_number
from dph.tasks.verifiers.math.units import (
    _UNITS,
    amounts,
    dimensions,
    unit_of,
    unit_product,
    units_differ,
    without_unit,
)


def equal(answer, gold):
    return numbers_equal(read_number(answer), read_number(gold))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", Fraction(5)),
        ("073", Fraction(73)),
        ("-1,234.50", Fraction(-2469, 2)),
        *(("1{,}000", Fraction(1000)), (".5", Fraction(1, 2))),
        *(("9.", Fraction(9)), (r"\$18.90", Fraction(189, 10))),
        (r"\frac{-3}{4}", Fraction(-3, 4)),
        (r"-\frac{3}{-4}", Fraction(3, 4)),
        *(("- 3 / 4", Fraction(-3, 4)), (r"50\%", Fraction(50))),
        *(("1e5", Fraction(100_000)), ("6.7E-5", Fraction(67, 10**6))),
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
        *(("1 - 2 - 3", -4), ("2 + 3 * 4", 14), ("8 / 2 / 2", 2), ("-2^2", -4), ("(-2)^2", 4)),
        *(("2^{-1}", Fraction(1, 2)), ("2^-1", Fraction(1, 2))),
        (r"2 \cdot 3 \times 4 \div 8", 3),
        (r"\frac{1 + 2}{4} - .25", Fraction(1, 2)),
        (r"\sqrt{\frac{4}{9}}", Fraction(2, 3)),
        ("--3", 3),
        ("2(3)", 6),
        (r"2\frac{1}{2}", Fraction(5, 2)),
        *(("5!", 120), (r"\binom{5}{2}", 10), ("2^{65}", 2**65), (r"1,200 + 1{,}000", 2200)),
    ],
)
def test_expressions_of_numbers_have_their_exact_value(text, value):
    assert read_arithmetic(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "2x", "1/2(3)", r"2\frac{3}{2}", "1,2", "3!!", "0.5!", "(-3)!", "50%", "2^3^2"),
        *("2^{0.5}", "2^{200000}", "7000!", "(1,200)", r"\sqrt{2}", r"\sqrt{-1}", "1/0", "1/(2-2)"),
        *("(1", "1)", "(1}", "1 +", "10 m", r"\fraction{1}{2}", "1" * 300),
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


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        *((r"10 \text{ cm}", ("cm", "1")), (r"10 \mathrm{~cm}^{2}", None)),
        *((r"10 \mathrm{cm}^{2}", ("cm", "2")), ("10 centimeters", ("cm", "1"))),
        *(("50 cents", ("cent", "1")), ("60 miles per hour", ("mi/h", "1"))),
        *(("60 mph", ("mi/h", "1")), (r"9.8 \text{ m/s}^2", ("m/s", "2")), ("3 apples/day", None)),
        *(("10", None), ("3x", None), (r"\sin x", None), ("10 apples", None)),
    ],
)
def test_common_units_are_known(text, unit):
    assert unit_of(text) == unit


def test_units_differ_only_when_both_are_known():
    assert units_differ("10 m", "10 cm")
    assert units_differ("50 dollars", "50 cents")
    assert units_differ(r"5 \text{ cm}^2", r"5 \text{ cm}")
    assert not units_differ("10 meters", r"10 \text{ m}")
    assert not units_differ("10", "10 cm")
    assert units_differ("12 m/s", r"12 \text{ km/h}")
    assert units_differ("12 m", "12 m/s")
    assert amounts("5 mph", r"6 \text{ miles per hour}") == ("5", "6")
    assert amounts("5 m", "5 m/s") is None
    for one, other in [
        ({"J": 1, "s": -1}, {"W": 1}),
        ({"L": 1}, {"cm": 3}),
        ({"s": -1}, {"Hz": 1}),
    ]:
        assert dimensions(one) == dimensions(other)
    assert dimensions({"m": 1, "s": 1}) != dimensions({"s": 1})


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        *(("12 m/s", "12"), ("1 2/3 m", "1 2/3"), ("60 cents per pound", "60")),
        *(("12 per", "12 per"), ("3 s^3", "3 s^3"), ("3 cm^3", "3"), ("5 miles an hour", "5")),
        *(("2 pi m", "2 pi"), ("m", "m")),
    ],
)
def test_a_unit_in_plain_words_is_left_off(text, rest):
    assert without_unit(text) == rest


@pytest.mark.parametrize(
    ("text", "powers"),
    [
        ("10 m s", {"m": 1, "s": 1}),
        (r"10 \mathrm{~m} \mathrm{~s}^{-1}", {"m": 1, "s": -1}),
        (r"9.8 \text{ m s}^{-2}", {"m": 1, "s": -2}),
        ("5 miles per hour", {"mi": 1, "h": -1}),
        ("60 mph", {"mi": 1, "h": -1}),
        (r"\frac{1}{2} \text{ kg} \cdot \text{m}^2", {"kg": 1, "m": 2}),
        (r"6 \times 10^{-5} m", {"m": 1}),
        ("1,000 m", {"m": 1}),
    ],
)
def test_a_number_and_its_units_are_read_with_their_powers(text, powers):
    assert unit_product(text, _UNITS) == powers


@pytest.mark.parametrize(
    "text",
    ["10", "m s", "10 x", "10 m x", "3x m", "10 J/kg m", "10 ms^{-1}", "10 m or 5 m", "10 deg", ""],
)
def test_anything_else_is_no_product_of_units(text):
    assert unit_product(text, _UNITS) is None


@pytest.mark.parametrize(
    ("response", "parts"),
    [
        (r"\boxed{\frac{1}{2^{3}}}", (r"\frac{1}{2^{3}}",)),
        (r"first \boxed{1}, and after more thought \boxed{2}.", ("2",)),
        (r"\boxed{x = \boxed{5}}", ("5",)),
        (r"\boxed {7}", ("7",)),
        (r"\fbox{7}", ("7",)),
        (r"\boxed{\{1, 2\}}", (r"\{1, 2\}",)),
        (r"\boxed{\left\{ 1 \right.}", (r"\left\{ 1 \right.",)),
        (r"\boxed{3} and then \boxed{4", ("3",)),
        (r"\boxed{1}\boxed{2}", ("1", "2")),
        (r"$\boxed{1}$, $\boxed{2}$, and $\boxed{3}$", ("1", "2", "3")),
        (r"\boxed{1} \text{ or } \boxed{2}", ("1", "2")),
        (r"no box at all", ()),
        (r"\boxed{1", ()),
    ],
)
def test_the_last_closed_boxes_count(response, parts):
    assert last_boxes(response) == parts


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("The answer is 5.", "5."),
        ("THE ANSWER IS: **7**", "7"),
        ("the answer is 4. No, the answer is 5", "5"),
        ("Final answer: $x=1$\n\nAnd some more words", "$x=1$"),
        ("The final answer is $3$. I hope it is correct.", "$3$."),
    ],
)
def test_without_a_box_the_last_phrase_counts(response, answer):
    found = find_answer(response)
    assert found is not None
    assert found.parts == (answer,)
    assert found.place is Place.PHRASE


def test_phrases_are_a_setting_and_boxes_count_more():
    assert find_answer("it comes to 5", phrases=("it comes to",)).parts == ("5",)
    assert find_answer("the answer is 5", phrases=()) is None
    assert find_answer("the answer is ") is None
    assert last_boxes(r"\boxed{" + "9" * (LONGEST_ANSWER + 10) + "}") == ()
    assert has_box(r"\boxed{9")
    assert find_answer(r"\boxed{1}. The answer is clear.").parts == ("1",)
    closing = r"\boxed{1}. The final answer is $2$. I hope it is correct."
    assert find_answer(closing).parts == ("$2$.",)
    boxed = r"The final answer is $\boxed{2}$. I hope it is correct."
    assert find_answer(boxed).place is Place.BOX
    assert find_answer("\u0130\u0130\u0130 the answer is 5").parts == ("5",)


@pytest.mark.parametrize(
    "mention",
    [
        *(r"\boxed{}", r"\boxed{ }", r"\boxed{\,}", r"\boxed{\ }", r"\boxed{...}"),
        *(r"\boxed{\ldots}", r"\boxed{\text{answer}}"),
        *(r"\boxed{\textbf{Your Answer}}", r"\boxed{<final answer>}"),
        r"\boxed{\text{your answer here}}",
        r"\fbox{\square}",
        r"$\boxed{\text{ANSWER}}$.",
    ],
)
def test_a_box_that_only_mentions_the_form_is_no_answer(mention):
    assert last_boxes(rf"It is \boxed{{8}}, given in {mention}") == ("8",)
    assert last_boxes(rf"I give it in {mention}. It is \boxed{{8}}") == ("8",)
    assert last_boxes(mention) == ()
    assert find_answer(f"The answer is 8. See {mention}").parts == (f"8. See {mention}",)
    assert find_answer(f"See {mention}") is None


@pytest.mark.parametrize(
    "content", [r"\{\}", r"\text{no solution}", "0", "<", r"\text{answer: 7}", "[]a", "n"]
)
def test_a_box_with_any_other_content_is_an_answer(content):
    assert last_boxes(rf"\boxed{{1}}. So \boxed{{{content}}}") == (content,)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("2*3=6\n#### 6\n\nQuestion: next?\nAnswer: 8\n#### 8", "6"),
        ("so\n#### 1,250\n\nQ: 9 pens, \\boxed{9}", "1,250"),
        ("so\n#### -7\n**Problem 2:** more\nThe answer is 3", "-7"),
        ("so\n####12 clips\n\n\nThe final answer is 5. I hope it is correct.", "12 clips"),
        ("so\n#### 6\n\nTom has 9.\n#### 9", "6"),
        ("so\n#### 6\n#### 9", "6"),
        ("so\n#### 1\nTom has 9.\n#### 9", "1"),
        ("#### Step 1\nAdd.\n#### 2. Multiply\nso the answer is 40", "40"),
        ("#### 1\nAdd.\n#### 2\nMultiply.\nThe answer is 40", "40"),
        ("#### 3\n\nIn all \\boxed{40}", "40"),
        ("<answer>so\n#### 6</answer>", "6"),
    ],
)
def test_the_first_line_of_gsm8k_counts_but_no_heading(response, answer):
    assert find_answer(response).parts == (answer,)


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        *(("9.", "9"), (" $9.$ ", "9"), (r"\, 9 \,", "9"), (r"\$5", r"\$5"), ("5 percent", r"5\%")),
        *(("5%", r"5\%"), ("5\\", "5"), ("\u22125", "-5"), (".5", ".5"), ("...", "")),
    ],
)
def test_an_answer_is_trimmed(text, trimmed):
    assert trim_answer(text) == trimmed


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (r"\left(1,\,2\right)", "(1,2)", True),
        (r"\dfrac12", r"\frac{1}{2}", True),
        (r"\tfrac{a}{b}", r"\frac{a}{b}", True),
        ("R = e, I = ( - e, e)", "R=e, I=(-e, e)", True),
        (r"\text{east}", "east", True),
        (r"2^{ - 1 / 3}", "2^{-1/3}", True),
        *(("1 2", "12", False), ("(1,2)", "[1,2]", False), ("x y", "xy", False)),
        *(("-1", "1", False), (r"5\%", "5", False), ("A", "a", False)),
    ],
)
def test_looks_do_not_count_and_what_may_change_the_value_does(one, other, same):
    assert (same_spelling(clean_answer(one)) == same_spelling(clean_answer(other))) is same
