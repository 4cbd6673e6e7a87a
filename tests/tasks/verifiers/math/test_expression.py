import pytest

pytest.importorskip("math_verify")

import sympy

from dph.tasks.verifiers.math.expression import (
    numerically_differ,
    read_latex,
    read_text,
    readings_equal,
)

X = sympy.Symbol("x", real=True)


def test_what_cannot_be_parsed_is_met_by_its_text():
    odd = read_latex(r"\frac{1}{")
    assert all(isinstance(value, str) for value in odd.values)
    assert readings_equal(odd, read_latex(r"\frac{1}{"))
    assert not readings_equal(odd, read_latex("1"))


def test_text_without_mathematics_has_no_reading():
    assert read_text("nothing here").values == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sympy.Rational(1, 2**60), sympy.Rational(1, 2**57)),
        (X, 1.01 * X),
        (sympy.Matrix([[1, 2]]), sympy.Matrix([[1, 3]])),
        (sympy.Interval(0, 1), sympy.Interval(0, 2)),
        (sympy.FiniteSet(1, 2), sympy.FiniteSet(1, 3)),
        (sympy.Tuple(1, 2), sympy.Tuple(2, 1)),
        (sympy.Eq(X, 1), sympy.Integer(2)),
        (sympy.Matrix([[1, 2]]), sympy.Matrix([[1], [2]])),
        (sympy.Eq(X, 1), sympy.Eq(4, 5, evaluate=False)),
        (sympy.Eq(X, sympy.Symbol("y")), sympy.Eq(X, sympy.Symbol("z"))),
    ],
)
def test_different_values_differ(one, other):
    assert numerically_differ(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sympy.sqrt(8), 2 * sympy.sqrt(2)),
        (sympy.Float("0.333333"), sympy.Rational(1, 3)),
        ((X + 1) ** 2, X**2 + 2 * X + 1),
        (X, sympy.Symbol("y")),
        (sympy.FiniteSet(sympy.I, 2), sympy.FiniteSet(sympy.I, 3)),
        (sympy.FiniteSet(1), sympy.FiniteSet(1, 3)),
        (sympy.Tuple(1), sympy.Tuple(1, 3)),
        (sympy.Tuple(sympy.true), sympy.Tuple(sympy.false)),
        (sympy.Sum(X, (X, 1, 3)), sympy.Integer(7)),
        (sympy.zoo, sympy.Integer(1)),
    ],
)
def test_equal_values_and_values_that_cannot_be_had_do_not_differ(one, other):
    assert not numerically_differ(one, other)
