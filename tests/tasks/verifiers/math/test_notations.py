"""What other keyboards, programs, schools and countries write, next to answers that are not it."""

import pytest

from dph.records import Outcome
from dph.tasks.verifiers.math.answer import PHRASES
from dph.tasks.verifiers.math.notation import latex_signs, plain_notation

pytest.importorskip("math_verify")

from dph.tasks.verifiers.math.handler import MathGrader

PAIRS = {
    "exact values": (
        [
            (r"\frac{31}{31!}", r"\frac{1}{30!}"),
            (r"3 - \frac{2}{2^{81}}", r"3 - \frac{1}{2^{80}}"),
            (r"\binom{300}{2}", "44850"),
            (r"\sqrt{7+2\sqrt{10}}", r"\sqrt{2}+\sqrt{5}"),
            ("0.142857142857143", r"\frac{1}{7}"),
        ],
        [
            (r"\frac{1}{30!}", r"\frac{1}{31!}"),
            (r"5 - \frac{1}{2^{90}}", r"5 - \frac{1}{2^{91}}"),
            ("10^{40}", "10^{40} + 1"),
            (r"\sqrt{3} + 10^{-30}", r"\sqrt{3}"),
            (r"e^{\pi\sqrt{163}}", "262537412640768744"),
            (r"\left(0, 1 - 2^{-90}\right]", r"\left(0, 1 - 2^{-91}\right]"),
            (r"\frac{1}{9000!}", r"\frac{2}{9000!}"),
        ],
    ),
    "intervals": (
        [
            (r"7 > t \ge -1", r"t \in [-1, 7)"),
            (r"y \leqslant \frac{3}{4}", r"(-\infty, 0.75]"),
            (r"]-3; 8]", r"-3 < x \le 8"),
            (r"[0, 2[", "[0,2)"),
            (r"x \le -2 \text{ or } x \ge 2", r"(-\infty,-2] \cup [2,\infty)"),
            ("x < 4, x > 9", r"(-\infty,4)\cup(9,\infty)"),
            (r"x \neq -5", r"(-\infty,-5)\cup(-5,\infty)"),
            (r"\mathbb{R} \setminus \{2, 1\}", r"x \ne 1, x \ne 2"),
            (r"\text{all real numbers}", r"(-\infty, +\infty)"),
            ("(-oo, 1) U (6, oo)", "x < 1 or x > 6"),
        ],
        [
            (r"y < \frac{3}{4}", r"(-\infty, 0.75]"),
            ("]2, 5[", "[2, 5]"),
            ("x > 4, x < 9", r"(-\infty,4)\cup(9,\infty)"),
            (r"x < 4 \text{ and } x > 9", r"(-\infty,4)\cup(9,\infty)"),
            ("x > 4", "4"),
            ("9 < x < 4", "(4, 9)"),
            ("a < x", "x < a"),
            (r"\mathbb{R} \setminus \{2\}", r"\mathbb{R}"),
        ],
    ),
    "mixed numbers": (
        [
            ("7 2/3", r"\frac{23}{3}"),
            ("2\u00be", r"\frac{11}{4}"),
            (r"1\,1/2", "1.5"),
            ("5 1/2 hours", "5.5"),
            ("1 1/2, 2 1/2", r"\frac{3}{2}, \frac{5}{2}"),
            ("12 - 1 1/2", "10.5"),
            (r"3\frac{1}{3}", r"\frac{10}{3}"),
        ],
        [
            ("7 2/3", r"\frac{14}{3}"),
            ("3 9/2", "7.5"),
            ("2 3/3", "3"),
            ("1 1/4", "11/4"),
        ],
    ),
    "programs and Unicode": (
        [
            ("3*pi/4", r"\frac{3\pi}{4}"),
            ("sqrt(3)/3", r"\frac{1}{\sqrt{3}}"),
            ("(a + b)**3", "(a+b)^3"),
            ("x^-2", r"\frac{1}{x^2}"),
            ("abs(t)", "|t|"),
            ("cbrt(27)", "3"),
            ("\u221b125", "5"),
            ("4\u03c0r\u00b2", r"4\pi r^2"),
            ("10\u207b\u2074", "0.0001"),
            ("x\u2081 + x\u2082", "x_1 + x_2"),
            ("\u00bd\u00b7\u221a3", r"\frac{\sqrt{3}}{2}"),
            ("x \u2260 2", r"x \ne 2"),
        ],
        [
            ("x\u00b2", "x2"),
            ("pies", r"\pi s"),
            ("2**3", "6"),
            ("\u221a12", r"2\sqrt{6}"),
            ("x**2**3", "x^6"),
        ],
    ),
    "full width": (
        [
            ("\uff0d\uff17", "-7"),
            ("\uff13\uff0f\uff14", "0.75"),
            ("\uff08\uff12\uff0c\uff15\uff09", "(2,5)"),
            ("\uff11\uff0c\uff15\uff10\uff10", "1500"),
            ("\uff22", "B"),
            ("\uff14\u3002", "4"),
        ],
        [
            ("\uff0d\uff17", "7"),
            ("\uff08\uff12\uff0c\uff15\uff09", "(5,2)"),
            ("\uff12\u00b3", "23"),
            ("\uff11\u00bd", r"\frac{11}{2}"),
        ],
    ),
    "decimals that repeat": (
        [
            (r"0.\overline{27}", r"\frac{3}{11}"),
            (r"0.8\dot{3}", r"\frac{5}{6}"),
            (r"0.\dot{0}7692\dot{3}", r"\frac{1}{13}"),
            ("0.(45)", r"\frac{5}{11}"),
            ("0.4\u03075\u0307", r"\frac{5}{11}"),
            (r"66.\overline{6}\%", r"\frac{2}{3}"),
            ("0.1212121...", r"\frac{4}{33}"),
        ],
        [
            (r"0.\overline{27}", "0.27"),
            (r"0.\dot{5}", r"\frac{1}{2}"),
            ("0.5(3)x", r"\frac{8}{15}x"),
            ("0.12...", r"\frac{4}{33}"),
        ],
    ),
    "small notations": (
        [
            ("12 500", "12500"),
            ("3\u2009141\u2009592", "3141592"),
            ("0.123 456", "0.123456"),
            (r"\cos 60^{\circ}", "0.5"),
            ("\\sin^2 45\u00b0", r"\frac{1}{2}"),
            (r"\text{FALSE}", "False"),
            ("\u00a312", "12"),
            ("12 \u20ac", r"12\text{ EUR}"),
            ("7 USD", r"\$7"),
            (r"\text{no real solutions}", r"\varnothing"),
        ],
        [
            ("12 500", "12.5"),
            (r"\cos 60", "0.5"),
            (r"\text{FALSE}", "true"),
            ("\u00a312", r"\$12"),
            ("12 EUR", "12 USD"),
            ("7 cents", r"\$7"),
            (r"\text{no solution}", "0"),
            (r"\text{no}", r"\emptyset"),
            (r"\{0\}", r"\emptyset"),
        ],
    ),
}


@pytest.fixture(scope="module")
def grade():
    grader = MathGrader(phrases=PHRASES, any_expression=True)
    return lambda response, gold: grader({"response": response, "gold": gold}, lambda _: None)[0]


@pytest.mark.parametrize("kind", PAIRS)
def test_a_notation_is_the_value_that_it_names_and_no_other(grade, kind):
    right, wrong = PAIRS[kind]
    for answer, gold in right:
        for one, other in ((answer, gold), (gold, answer)):
            assert grade(rf"\boxed{{{one}}}", other) == Outcome.CORRECT, (one, other)
    for answer, gold in wrong:
        for one, other in ((answer, gold), (gold, answer)):
            assert grade(rf"\boxed{{{one}}}", other) == Outcome.WRONG, (one, other)


@pytest.mark.parametrize(
    ("response", "gold"),
    [
        ("The answer is 2 1/2.", "5/2"),
        ("The final answer is: \u221a5", r"\sqrt{5}"),
        ("Final answer\uff1a \uff14\uff12", "42"),
        ("The answer is x < 1 or x > 6.", r"(-\infty,1)\cup(6,\infty)"),
        ("The answer is: no solutions.", r"\emptyset"),
        ("Hence the sum is \uff14\uff12", "42"),
    ],
)
def test_a_phrase_may_announce_any_notation(grade, response, gold):
    assert grade(response, gold) == Outcome.CORRECT


@pytest.mark.parametrize("text", ["7", r"\frac{1}{2}", "x^2 + 1", r"\text{east}", "(1, 2)", "p i"])
def test_plain_latex_stays(text):
    assert plain_notation(latex_signs(text)) == text


@pytest.mark.parametrize(
    "text",
    ["sqrt(" * 190, "\u221a" * 900, "1 " * 450, "0." + "(1)" * 300, "^(" * 450, r"\sin(" * 190],
)
def test_no_text_takes_long(text):
    assert isinstance(plain_notation(latex_signs(text)), str)
