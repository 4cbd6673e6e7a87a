import pytest

pytest.importorskip("sympy")

import sympy

from dph.tasks.verifiers.qwen import equality as qwen_symbolic
from dph.tasks.verifiers.qwen.equality import is_close, symbolically_equal


def test_close_is_relative():
    assert is_close(1.00009, 1.0)
    assert not is_close(1.0002, 1.0)
    assert not is_close(float("inf"), 5.0)


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
    assert qwen_symbolic._parse_plain(text) == value


@pytest.mark.parametrize("text", ["f(1)", "__import__('os')", "True", "a.b", "1 if 2 else 3", "~1"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="not plain arithmetic"):
        qwen_symbolic._parse_plain(text)


def test_matrices_are_compared_to_three_decimals():
    one = sympy.Matrix([[sympy.Float("1.0001")]])
    assert qwen_symbolic._same_matrix(one, sympy.Matrix([[1.0]]))
    assert not qwen_symbolic._same_matrix(one, sympy.Matrix([[1.0, 2.0]]))
