import pytest
import sympy

from dph.records import Outcome
from dph.tasks.verifiers.qwen import equality as qwen_equality
from dph.tasks.verifiers.qwen.equality import (
    grade_qwen,
    is_close,
    number_of_words,
    qwen_equal,
    qwen_gold,
    qwen_spelling,
    symbolically_equal,
    without_units,
)
from dph.tasks.verifiers.qwen.verifier import qwen_answer

pytest.importorskip("sympy")


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("The final answer is $5$. I hope it is correct. \\boxed{6}", "5"),
        (r"\boxed{1}, \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed 5$ is it", "5"),
        (r"\boxed{12", "12"),
        ("ends in boxed", ""),
        ("The answer is 5. Yes, the answer is: 6.", " 6"),
        ("final answer is 7/", "7"),
        ("\u7b54\u6848\u662f 8\n\nend", "8"),
        ("1,200 then -3.5.", "-3.5"),
        ("12.", "12"),
        ("no number", ""),
    ],
)
def test_the_first_rule_that_applies_decides(response, answer):
    assert qwen_answer(response) == answer


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        *((r"\frac12", r"\frac{1}{2}"), (r"\frac1{2}", r"\frac{1}{2}"), (r"\frac1", r"\frac1")),
        *(("3/4", r"\frac{3}{4}"), ("03/4", "03/4"), ("z/4", "z/4"), ("1/2/3", "1/2/3")),
        (r"\sqrt3/2", r"\frac{\sqrt{3}}{2}"),
        *((r"\sqrt3", r"\sqrt{3}"), ("x=5", "5"), ("k = 5", "5"), ("abc=5", "abc=5")),
        *(("3.00", "3"), ("3.00 m", "3"), (".5", "0.5"), (r"50\%", "50"), ("073", "73")),
        *(("-3", "-3"), (r"\text{seven}", "7"), (r"\text{Monday}", "Monday")),
        *((r"5 \text{ yuan}", "5"), (r"5 \text{cm}^2", "5"), ("12 miles", "12")),
        *(("90^\\circ", "90"), (r"\left(1, 2\right)", "(1,2)")),
        (r"\begin{array}{cc}1&2\end{array}", r"\begin{pmatrix}1&2\end{pmatrix}"),
        (r"(-\infty,\infty)", r"\mathbb{R}"),
        *(("infinity", "\\infty"), ("2+3j", "2+3i"), (r"5\mbox{ cm}", "5"), ("", ""), ("$", "")),
        # The order of the units: "s" goes before "s ." could take the sign along.
        (r"\frac{1}{s + a}", r"\frac{1}{+}"),
        (r"- a \pi", r"-\pi"),
        ("d . ", "d"),
    ],
)
def test_a_spelling_is_the_tools(text, spelling):
    assert qwen_spelling(text) == spelling


@pytest.mark.parametrize(
    ("text", "rest"),
    [("12 miles", "12 "), ("5 sq m", "5 "), ("a", "a"), ("3x", "3x"), ("10 cm per s", "10   ")],
)
def test_units_that_stand_alone_go(text, rest):
    assert without_units(text).split() == rest.split()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("seven", 7),
        ("Twenty-one apples", 21),
        ("two hundred and five", 205),
        ("one million two hundred", 1_000_200),
        ("two hundred thousand", 200_000),
        ("ten million eleven thousand", 10_011_000 + 11 + 1000),
        *(("thousand", 1000), ("three point one four", 3.14), ("073", 73), (" 5", None)),
        *(("-3", None), ("apples", None), ("thousand million", None), ("thousand thousand", None)),
        *(("three point", 3), ("three point twenty", 3), ("point", 0)),
        *(("thousand five", None), ("two of three in four", 10)),
        ("two hundred thousand four million", None),
        ("five of six of seven of eight of nine", 5),
        ("thousand million point one", None),
        ("9" * 1001, None),
        ("", None),
    ],
)
def test_number_words_are_read_as_the_tool_reads_them(text, number):
    assert number_of_words(text) == number


def test_close_is_relative_and_matrices_are_compared_to_three_decimals():
    assert is_close(1.00009, 1.0)
    assert not is_close(1.0002, 1.0)
    assert not is_close(float("inf"), 5.0)
    one = sympy.Matrix([[sympy.Float("1.0001")]])
    assert qwen_equality._same_matrix(one, sympy.Matrix([[1.0]]))
    assert not qwen_equality._same_matrix(one, sympy.Matrix([[1.0, 2.0]]))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (r"\frac{1}{3}", "0.33334", True),
        ("x=1", "1=x", True),
        ("x", "y", False),
        ("\\", "5", False),
        ("1,2", "1", True),
    ],
)
def test_sympy_decides(one, other, same):
    assert symbolically_equal(one, other) is same


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-2*x + 3/4 - 1", -2 * sympy.Symbol("x") + sympy.Rational(3, 4) - 1),
        ("+pi**2", sympy.pi**2),
        ("(1, 0.5)", (1, sympy.Float("0.5"))),
        ("[1]", [1]),
    ],
)
def test_plain_arithmetic_is_read_without_eval(text, value):
    assert qwen_equality._parse_plain(text) == value


@pytest.mark.parametrize("text", ["f(1)", "__import__('os')", "True", "a.b", "1 if 2 else 3", "~1"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="not plain arithmetic"):
        qwen_equality._parse_plain(text)


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        *(("5", "5", True), ("(B)", "B", True), ("500", "5", True), ("0.05", "5", True)),
        *(("1,000", "1000", True), ("50\\%", "0.5", True)),
        *(("5.0004", "5", True), ("[1,2]", "{1,2}", True)),
        ("(1,\\frac{4}{2})", "(1,2)", True),
        (r"\begin{pmatrix}1\\\frac{4}{2}\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}", True),
        ("x+1=y", "y=x+1", True),
        ("x=5", "5.0001", True),
        ("5.0001", "x=5", True),
        (r"\frac{2}{4}", r"\frac{1}{2}", True),
        *(("(x+1)^2", "x^2+2x+1", True), ("6", "5", False), ("", "5", False), ("A", "B", False)),
        *(("9" * 400, "5", False), ("x%", "5", False), ("(1,3)", "(1,2)", False)),
        (r"\begin{pmatrix}1\\3\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}", False),
        (r"\begin{pmatrix}1\\3\end{pmatrix}", "{1,2}", False),
        ("x+1=y", "y=x+2", False),
        ("x", "y", False),
    ],
)
def test_the_tool_takes_some_answers_as_equal_and_others_not(answer, gold, same):
    assert bool(qwen_equal(answer, gold)) is same


@pytest.mark.parametrize(
    ("response", "gold", "outcome"),
    [
        (r"\boxed{\frac12}", "0.5", Outcome.CORRECT),
        (r"\boxed{500}", "5", Outcome.CORRECT),
        (r"\boxed{6}", "5", Outcome.WRONG),
        ("nothing", "5", Outcome.NO_ANSWER),
        ("the answer is " + "1 " * 20_000, "5", Outcome.OVER_LIMIT),
    ],
)
def test_a_response_is_graded(response, gold, outcome):
    assert grade_qwen({"response": response, "gold": gold}, lambda _: None)[0] == outcome


def test_a_boxed_gold_is_found_and_what_sympy_raises_is_invalid(monkeypatch):
    assert qwen_gold(r"thus $\boxed{x=5}$") == "5"

    def fail(*_):
        raise RecursionError("too deep")

    monkeypatch.setattr("dph.tasks.verifiers.qwen.equality.qwen_equal", fail)
    verdict = grade_qwen({"response": r"\boxed{x+9}", "gold": "x+8"}, lambda _: None)
    assert verdict == (Outcome.INVALID, 0.0, "RecursionError: too deep")
