"""Symbolic equality as the Qwen2.5-Math evaluation tool has it: parse as LaTeX, try six tests.

The parser stops without a word at the first thing it does not know (``1,2`` is 1): one more
reason not to train with this verifier. Where the tool would hand text to ``eval``, a walk over
the syntax tree takes its place; the LaTeX parser understands nearly all before it.
"""

import ast
import contextlib
import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import sympy
from sympy.parsing.latex import parse_latex

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_CONSTANTS = {"pi": sympy.pi, "E": sympy.E, "I": sympy.I, "oo": sympy.oo}
_RELATIVE_TOLERANCE = 1e-4


def is_close(one: float, other: float) -> bool:
    """Within 1e-4 of the larger, the tool's tolerance for numbers."""
    return math.isclose(one, other, rel_tol=_RELATIVE_TOLERANCE)


def symbolically_equal(answer: str, gold: str) -> bool:
    r"""Whether sympy finds two texts equal, in any of the tool's ways.

    >>> symbolically_equal(r"\frac{x}{2} + \frac{x}{2}", "x"), symbolically_equal("x", "y")
    (True, False)
    """
    one, other = _parse(answer), _parse(gold)
    return any(
        _holds(test, one, other)
        for test in (
            _same,
            _equals,
            _difference_is_zero,
            _same_equation,
            _same_number,
            _same_matrix,
        )
    )


@lru_cache(maxsize=4096)
def _parse(text: str) -> Any:
    for reader in (parse_latex, _parse_plain):
        for spelling in dict.fromkeys((text.replace("\\\\", "\\"), text)):
            # Whatever a reader raises, the next one is asked: that is the tool's rule.
            with contextlib.suppress(Exception):
                return reader(spelling)
    return text


def _holds(test: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    """The test's answer; an error inside sympy counts as no, as it does in the tool."""
    with contextlib.suppress(Exception):
        return bool(test(one, other))
    return False


def _same(one: Any, other: Any) -> bool:
    return str(one) == str(other) or bool(one == other)


def _equals(one: Any, other: Any) -> bool:
    return bool(one.equals(other))


def _difference_is_zero(one: Any, other: Any) -> bool:
    return bool(sympy.simplify(one - other) == 0)


def _same_equation(one: Any, other: Any) -> bool:
    return bool(abs(one.lhs - one.rhs).equals(abs(other.lhs - other.rhs)))


def _same_number(one: Any, other: Any) -> bool:
    return is_close(float(sympy.N(one)), float(sympy.N(other)))


def _same_matrix(one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    rounded = [matrix.applyfunc(lambda entry: round(entry, 3)) for matrix in (one, other)]
    return bool(rounded[0].equals(rounded[1]))


def _parse_plain(text: str) -> Any:
    """Arithmetic, names, tuples and lists in Python's notation.

    Raises:
        ValueError: there is something else in it.
    """
    return _build(ast.parse(text, mode="eval").body)


def _build(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return sympy.Integer(value) if isinstance(value, int) else sympy.Float(str(value))
        case ast.Name(id=name):
            return _CONSTANTS.get(name, sympy.Symbol(name))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_build(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _build(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_build(left), _build(right))
        case ast.Tuple(elts=parts):
            return tuple(_build(part) for part in parts)
        case ast.List(elts=parts):
            return [_build(part) for part in parts]
    raise ValueError(f"{ast.dump(node)[:100]} is not plain arithmetic")
