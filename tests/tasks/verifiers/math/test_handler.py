import pytest
import sympy

from dph.records import Outcome
from dph.tasks.verifiers.math.answer import PHRASES, latex_signs, plain_notation
from dph.tasks.verifiers.math.handler import (
    MathGrader,
    gold_answer,
    judge_cheaply,
    numerically_differ,
    read_latex,
    read_text,
    readings_equal,
)

pytest.importorskip("math_verify")

X = sympy.Symbol("x", real=True)


def test_what_cannot_be_parsed_is_met_by_its_text():
    odd = read_latex(r"\frac{1}{")
    assert all(isinstance(value, str) for value in odd)
    assert readings_equal(odd, read_latex(r"\frac{1}{"))
    assert not readings_equal(odd, read_latex("1"))
    assert read_text("nothing here") == ()


@pytest.mark.parametrize(
    ("same", "cases"),
    [
        (True, [(sympy.Rational(1, 2**60), sympy.Rational(1, 2**57)), (X, 1.01 * X)]),
        (True, [(sympy.Matrix([[1, 2]]), sympy.Matrix([[1, 3]]))]),
        (True, [(sympy.Interval(0, 1), sympy.Interval(0, 2))]),
        (True, [(sympy.FiniteSet(1, 2), sympy.FiniteSet(1, 3))]),
        (True, [(sympy.Tuple(1, 2), sympy.Tuple(2, 1)), (sympy.Eq(X, 1), sympy.Integer(2))]),
        (True, [(sympy.Matrix([[1, 2]]), sympy.Matrix([[1], [2]]))]),
        (True, [(sympy.Eq(X, 1), sympy.Eq(4, 5, evaluate=False))]),
        (True, [(sympy.Eq(X, sympy.Symbol("y")), sympy.Eq(X, sympy.Symbol("z")))]),
        (False, [(sympy.sqrt(8), 2 * sympy.sqrt(2))]),
        (False, [(sympy.Float("0.333333"), sympy.Rational(1, 3))]),
        (False, [((X + 1) ** 2, X**2 + 2 * X + 1), (X, sympy.Symbol("y"))]),
        (False, [(sympy.FiniteSet(sympy.I, 2), sympy.FiniteSet(sympy.I, 3))]),
        (False, [(sympy.FiniteSet(1), sympy.FiniteSet(1, 3)), (sympy.Tuple(1), sympy.Tuple(1, 3))]),
        (False, [(sympy.Tuple(sympy.true), sympy.Tuple(sympy.false))]),
        (False, [(sympy.Sum(X, (X, 1, 3)), sympy.Integer(7)), (sympy.zoo, sympy.Integer(1))]),
    ],
)
def test_values_differ_numerically_or_cannot_be_told_apart(same, cases):
    for one, other in cases:
        assert bool(numerically_differ(one, other)) is same


@pytest.fixture(scope="module")
def grade():
    grader = MathGrader(phrases=PHRASES, any_expression=True)
    return lambda response, gold: grader({"response": response, "gold": gold}, lambda _: None)[0]


COLUMNS = r"\boxed{{\mathbf{{y}} = c_{{1}} e^{{3t}} \begin{{pmatrix}} \{} \\ {} \end{{pmatrix}}}}"

RIGHT = [
    (r"\boxed{10 \mathrm{~m/s}}", r"10 \mathrm{~m} \mathrm{~s}^{-1}"),
    (r"\boxed{9.8 \text{ m s}^{-2}}", r"9.8 \text{ m/s}^2"),
    (r"\boxed{60 \text{ J/s}}", r"60 \text{ W}"),
    (r"\boxed{1 \text{ g/mL}}", r"1 \text{ kg/L}"),
    (r"\boxed{5 \text{ miles an hour}}", r"5 \text{ mph}"),
    (r"\boxed{m g h / L}", "h g m / L"),
    (r"\boxed{0 = 2x - 6 \Rightarrow x = 3}", "3"),
    (r"\boxed{100 = 4x \text{ so } x = 25}", "25"),
    (r"\boxed{\frac{17}{3} = 6}", "6"),
    (r"\boxed{2.5 = 3}", "3"),
    (r"\boxed{\frac{1}{30} = 0.03}", "0.03"),
    (r"\boxed{12 m/s}", "12"),
    (r"\boxed{12 m/s}", r"12\text{ m/s}"),
    (r"\boxed{x = \frac{1}{3} = 0.33}", "0.33"),
    (COLUMNS.format("cos 6t", "5"), COLUMNS.format("cos 6 t", "10/2")),
    (r"\boxed{9.}", "9"),
    (r"\boxed{\frac{\sqrt{2}}{2}}", r"\frac{1}{\sqrt{2}}"),
    *((r"\boxed{\frac{2}{4}}", "1/2"), (r"\boxed{1{,}000}", "1000"), (r"\boxed{x = 5}", "5")),
    *((r"\boxed{10 \text{ cm}}", "10"), (r"\boxed{[0, 1)}", "[0,1)")),
    (r"\boxed{\{2, 1\}}", r"\{1,2\}"),
    (r"\boxed{2} and \boxed{1}", "1, 2"),
    (r"\boxed{\frac{1}{2}} or \boxed{0.5}", "1/2"),
    (r"\boxed{\begin{pmatrix} 1 \\ 2 \end{pmatrix}}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    *((r"\boxed{(x+1)^2}", "x^2+2x+1"), (r"\boxed{2x = 4y}", "x=2y")),
    (r"\boxed{C) 5 apples}", "C"),
    *((r"\boxed{\text{east}}", "east"), ("The answer is 5 apples.", "5")),
    ("The final answer is $x^2$.", "x^2"),
    ("so 3 + 4 = 7", "7"),
    # a phrase may announce any notation
    ("The answer is 2 1/2.", "5/2"),
    ("The final answer is: \u221a5", r"\sqrt{5}"),
    ("Final answer\uff1a \uff14\uff12", "42"),
    ("The answer is x < 1 or x > 6.", r"(-\infty,1)\cup(6,\infty)"),
    ("The answer is: no solutions.", r"\emptyset"),
    ("Hence the sum is \uff14\uff12", "42"),
    (r"\boxed{1.414214}", r"\sqrt{2}"),
    (r"\boxed{1\,234\,567}", "1234567"),
    (r"\boxed{0 \le x < 1}", "[0,1)"),
    (r"\boxed{[0,1)}", r"0 \le x < 1"),
    (r"\boxed{x<2}", r"(-\infty,2)"),
    (r"\boxed{(11000)_2}", "11000_2"),
    (r"\boxed{11000_{\text{2}}}", "11000_2"),
    (r"\boxed{0.000067}", "6.7e-5"),
    (r"\boxed{6.72 \times 10^{-5}}", ".0000672"),
    (r"\boxed{\varnothing}", r"\emptyset"),
    (r"\boxed{\text{(E)}}", "E"),
    *(
        (rf"\boxed{{{answer}}}", gold)
        for answer, gold in [
            # what is said on the way is true, or rounded, or nothing that could be checked
            ("2+3=5", "5"),
            (r"x = 2 \cdot 2 + 1 = 5", "5"),
            (r"\frac{1}{2}+\frac{1}{2}=1", "1"),
            (r"\sqrt{16}=4", "4"),
            (r"\sqrt{17}=4", "4"),
            (r"\frac{1}{3}+\frac{1}{3} = 0.67", "0.67"),
            (r"0.33 + 0.33 = 0.66 = \frac{2}{3}", r"\frac{2}{3}"),
            ("3x + 2 = 5", "3x + 2 = 5"),
            (r"\sin 30^\circ = 0.5", "0.5"),
            # the same product of units, however it is written, or no unit at all
            ("10 s m", "10 m s"),
            (r"10 \text{ m} \cdot \text{s}", "10 m s"),
            ("10 m s", "10"),
            (r"3 \text{ m/s}^2", r"3 \text{ m s}^{-2}"),
            # lists and sets of values; points and intervals
            *(("2, 1", "1, 2"), (r"\{1, 2\}", "1, 2"), ("1, 2", r"\{1, 2\}")),
            *(("x = 1, x = 2", "1, 2"), (r"1 \text{ and } 2", "1, 2"), ("x = 1, y = 2", "(1, 2)")),
            *(("(x, y) = (1, 2)", "(1, 2)"), (r"x \in (1, 2)", "(1, 2)")),
            ("(3, 4), (1, 2)", "(1, 2), (3, 4)"),
        ]
    ),
]

WRONG = [
    (r"\boxed{x = 7.0 = 7.1}", "7.1"),
    *((r"\boxed{3 s^3}", "3"), (r"\boxed{6 = 5}", "5"), (r"\boxed{6 = 5}", "6")),
    *((r"\boxed{x = 6 = 5}", "5"), (r"\boxed{y = 6 = 5}", "y = 5")),
    (r"\boxed{12 m/s}", r"12\text{ km/h}"),
    (r"\boxed{1200 m/s}", r"12\text{ m/s}"),
    (r"\boxed{9.8 m/s^2}", "9.8 m/s"),
    *((r"\boxed{0.05}", "5"), (r"\boxed{6}", "5"), (r"\boxed{-5}", "5")),
    *((r"\boxed{500\%}", r"5\%"), (r"\boxed{1} or \boxed{2}", "2")),
    (r"\boxed{2 \text{ or } 3}", "2"),
    (r"\boxed{0.0000003}", "0.00000001"),
    (r"\boxed{2^{-57}}", "2^{-60}"),
    (r"\boxed{100\sqrt{2}}", r"\sqrt{2}"),
    (r"\boxed{\sqrt{2}+1}", r"\sqrt{2}"),
    (r"\boxed{1.4283}", r"\sqrt{2}"),
    (r"\boxed{10 \text{ m}}", r"10 \text{ cm}"),
    (r"\boxed{(0,1]}", "[0,1]"),
    (r"\boxed{(1,2)}", "(2,1)"),
    (r"\boxed{\{1,2,3\}}", r"\{1,2\}"),
    (r"\boxed{\{2^{-57}, 1\}}", r"\{2^{-60}, 1\}"),
    (r"\boxed{\begin{pmatrix}1\\3\end{pmatrix}}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\boxed{x+1}", "x"),
    (r"\boxed{4:30 \text{ a.m.}}", r"4:30 \text{ p.m.}"),
    *((r"\boxed{52_8}", "52_9"), (r"\boxed{11000}", "11000_2"), (r"\boxed{e}", "E")),
    *((r"\boxed{a}", "A"), (r"\boxed{3}", "3:1")),
    (r"\boxed{6.72 \times 10^{-4}}", ".0000672"),
    (r"\boxed{0 \le x \le 1}", "[0,1)"),
    (r"\boxed{1 < x < 2}", r"\{1,2\}"),
    (r"\boxed{(1,2)}", r"\{1,2\}"),
    (r"\boxed{500 cents}", "5"),
    (r"\boxed{1\,2}", "12"),
    (r"\boxed{x^2 + 18x + 86 = 0}", r"\log_{\frac{1}{5}}(625) = -4"),
    (COLUMNS.format("cos 6t", "5"), COLUMNS.format("sin 6t", "5")),
    (COLUMNS.format("cos 6t", "5"), COLUMNS.format("cos 6t", r"5 \\ 6")),
    (COLUMNS.format("cos 6t", "5"), COLUMNS.format("cos 6t", "5 c_{{2}}")),
    (r"\boxed{\pm 5}", "5"),
    (r"\boxed{5 \pmod 7}", "5"),
    ("The answer is 4, 5, 6, or 7", "5"),
    (r"\boxed{\text{west}}", r"\text{east}"),
    *(
        (rf"\boxed{{{answer}}}", gold)
        for answer, gold in [
            # a false equation is no answer, whichever side of it the gold is
            *(("2+2=5", "5"), ("2+2=5", "4"), ("5=2+2", "5"), ("x = 2 + 2 = 5", "5")),
            *(("2 + 2 = x = 5", "5"), (r"2 \times 3 = 5", "5"), ("2^3 = 6", "6")),
            *(("(2+2) = 5", "5"), (r"\sqrt{16} = 5", "5")),
            (r"\frac{1}{2}+\frac{1}{2}=2", "2"),
            (r"\frac{1}{2}+\frac{1}{2}=\frac{1}{4}", r"\frac{1}{4}"),
            # a unit times another one is another unit
            ("10 m s", "10 s"),
            ("10 s", "10 m s"),
            (r"10 \text{ m s}", r"10 \text{ s}"),
            (r"10 \text{ m} \cdot \text{s}", "10 s"),
            (r"10 \text{ kg m/s}", r"10 \text{ m/s}"),
            ("10 m s", "10 ms"),
            ("10 m^2", "10 m"),
            ("11 s m", "10 m s"),
            # the open interval from 1 to 2, and the point, are no list of 1 and 2
            *(("(1,2)", "1,2"), ("1,2", "(1,2)"), ("(1, 2)", r"1 \text{ and } 2")),
            *(("(-1, 2)", "x = -1, 2"), (r"x \in (1, 2)", "1, 2"), ("(1,2,3)", "1,2,3")),
            *(("1,2,3", "(1,2,3)"), ("[1,2]", "1,2")),
            *(("(1,2]", "1,2"), ("(x, y) = (1, 2)", "1, 2")),
        ]
    ),
    ("The answer is the point (1, 2).", "1, 2"),
]


@pytest.mark.parametrize(("response", "gold"), RIGHT)
def test_a_right_answer_is_right_however_it_is_written(grade, response, gold):
    assert grade(response, gold) == Outcome.CORRECT


@pytest.mark.parametrize(("response", "gold"), WRONG)
def test_a_wrong_answer_near_the_gold_is_wrong(grade, response, gold):
    assert grade(response, gold) == Outcome.WRONG


@pytest.mark.parametrize("response", ["", "I do not know.", r"\boxed{5", r"\boxed{}", r"\boxed{.}"])
def test_no_answer_is_told_from_a_wrong_one(grade, response):
    assert grade(response, "5") == Outcome.NO_ANSWER


def test_without_any_expression_a_bare_number_is_no_answer_and_boxes_of_a_gold_are_its_answer():
    strict = MathGrader(phrases=(), any_expression=False)
    request = {"response": "so it is 5", "gold": "5"}
    assert strict(request, lambda _: None)[0] == Outcome.NO_ANSWER
    assert gold_answer(r"so $x=\boxed{\frac{1}{2}}$.") == r"\frac{1}{2}"
    assert judge_cheaply("x+1", "1+x") is None


@pytest.mark.parametrize("gold", ["", " $ $ ", "(" * 60 + "1" + ")" * 60, "9" * 6000])
def test_a_gold_that_cannot_be_read_is_bad(grade, gold):
    assert grade(r"\boxed{5}", gold) == Outcome.BAD_GOLD


@pytest.mark.parametrize("answer", ["(" * 60 + "1" + ")" * 60, "[" * 2000])
def test_an_answer_nested_too_deeply_is_over_the_limit(grade, answer):
    assert grade(rf"\boxed{{{answer}}}", "5") == Outcome.OVER_LIMIT


def test_reading_a_gold_is_a_stage_of_its_own_and_done_once():
    stages, grader = [], MathGrader(phrases=PHRASES, any_expression=True)
    for answer in ("7z+1", "7z+2"):
        grader({"response": rf"\boxed{{{answer}}}", "gold": "7z+3"}, stages.append)
    assert stages == ["gold", "answer"]


def test_what_sympy_raises_is_invalid_and_no_error(monkeypatch):
    def fail(*_):
        raise RecursionError("too deep")

    monkeypatch.setattr("dph.tasks.verifiers.math.handler.readings_equal", fail)
    fresh = MathGrader(phrases=(), any_expression=False)
    verdict = fresh({"response": r"\boxed{x+9}", "gold": "x+8"}, lambda _: None)
    assert verdict == (Outcome.INVALID, 0.0, "RecursionError: too deep")


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
        [("7 2/3", r"\frac{14}{3}"), ("3 9/2", "7.5"), ("2 3/3", "3"), ("1 1/4", "11/4")],
    ),
    "programs and Unicode": (
        [
            ("3*pi/4", r"\frac{3\pi}{4}"),
            ("sqrt(3)/3", r"\frac{1}{\sqrt{3}}"),
            *(("(a + b)**3", "(a+b)^3"), ("x^-2", r"\frac{1}{x^2}"), ("abs(t)", "|t|")),
            *(("cbrt(27)", "3"), ("\u221b125", "5")),
            *(("4\u03c0r\u00b2", r"4\pi r^2"), ("10\u207b\u2074", "0.0001")),
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
            *(("12 500", "12.5"), (r"\cos 60", "0.5"), (r"\text{FALSE}", "true")),
            *(("\u00a312", r"\$12"), ("12 EUR", "12 USD"), ("7 cents", r"\$7")),
            *((r"\text{no solution}", "0"), (r"\text{no}", r"\emptyset"), (r"\{0\}", r"\emptyset")),
        ],
    ),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_notation_is_the_value_that_it_names_and_no_other(grade, kind):
    right, wrong = PAIRS[kind]
    for answer, gold in right:
        for one, other in ((answer, gold), (gold, answer)):
            assert grade(rf"\boxed{{{one}}}", other) == Outcome.CORRECT, (one, other)
    for answer, gold in wrong:
        for one, other in ((answer, gold), (gold, answer)):
            assert grade(rf"\boxed{{{one}}}", other) == Outcome.WRONG, (one, other)


@pytest.mark.parametrize("text", ["7", r"\frac{1}{2}", "x^2 + 1", r"\text{east}", "(1, 2)", "p i"])
def test_plain_latex_stays(text):
    assert plain_notation(latex_signs(text)) == text


@pytest.mark.parametrize(
    "text",
    ["sqrt(" * 190, "\u221a" * 900, "1 " * 450, "0." + "(1)" * 300, "^(" * 450, r"\sin(" * 190],
)
def test_no_text_takes_long(text):
    assert isinstance(plain_notation(latex_signs(text)), str)
