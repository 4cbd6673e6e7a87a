r"""Answers as sympy expressions, read and compared by the package math-verify.

Its time limits, which are signals, are switched off: this runs in a worker that can be killed.
Two of its habits are undone: differences below 1e-15 count as none (so that 2^-60 equals 2^-57),
and decimals below 1e-6 are all equal. Here expressions also have to agree to a relative 1e-4
where a decimal was written; where none was, their difference has to be zero to hundreds of digits.
"""

import cmath
import contextlib
import zlib
from collections.abc import Iterator
from typing import Any

import sympy
from latex2sympy2_extended.math_normalization import normalize_latex
from math_verify.grader import verify
from math_verify.parser import LatexExtractionConfig, parse, parse_latex_cached
from sympy.core.evalf import PrecisionExhausted

_NORMALIZATION = LatexExtractionConfig().normalization_config
_DIGITS = 30
# What sympy sums or integrates numerically, for as long as it takes.
_ENDLESS = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.Derivative)
_DECIMAL_TOLERANCE = 1e-4
# Digits to which a difference of exact values is sought; with symbols, their fixed values have
# a few more digits than the terms must agree to.
_SOUGHT, _SYMBOL_DIGITS, _AGREED = 1000, 150, sympy.Float("1e-100")


Reading = tuple[Any, ...]
"""Parts of an answer that math-verify may compare: an expression, its text, or both."""


def read_latex(text: str) -> Reading:
    """Read an answer that is known to be LaTeX, such as what a box holds."""
    normalized = text
    # math-verify meets what its parser cannot read, whatever that raises, by the text alone.
    with contextlib.suppress(Exception):
        normalized = normalize_latex(text, _NORMALIZATION)
        return parse_latex_cached(normalized), normalized
    return (normalized,)


def read_text(text: str) -> Reading:
    """Find and read the answer in running text."""
    return tuple(parse(text, parsing_timeout=None))


def readings_equal(answer: Reading, gold: Reading) -> bool:
    """Whether math-verify takes the answer as right, and the numbers bear it out."""
    one, other = answer[0], gold[0]
    if _hopeless(one, other) or _list_and_point(one, other):
        return False
    exact = _same_exact_number(one, other)
    if exact is not None:
        return exact
    # 0 <= x < 1 is the interval [0, 1), whichever of the two the gold says.
    interval = isinstance(other, sympy.Interval | sympy.Union)
    how = {"timeout_seconds": None, "allow_set_relation_comp": interval}
    if not verify(list(gold), list(answer), **how):
        return False
    return isinstance(one, str) or isinstance(other, str) or not numerically_differ(one, other)


def _hopeless(answer: Any, gold: Any) -> bool:
    """Whether the two are surely not the same and math-verify need not be asked, which is slow."""
    one, other = _sides(answer, gold)
    if isinstance(one, sympy.Set) != isinstance(other, sympy.Set):
        single, several = (other, one) if isinstance(one, sympy.Set) else (one, other)
        return _is_value(single) and not isinstance(several, sympy.FiniteSet)
    if not (_is_value(one) and _is_value(other)) or _has_percent(one) or _has_percent(other):
        return False
    first, second = _value(one), _value(other)
    if first is None or second is None:
        return False
    return abs(first - second) > 1e-3 * max(1, abs(first), abs(second))


def _same_exact_number(answer: Any, gold: Any) -> bool | None:
    """Whether two numbers without a decimal are one; None if one of them is not such a number."""
    for side in (answer, gold):
        if not _is_value(side) or side.free_symbols or side.has(sympy.Float, *_ENDLESS):
            return None
    if _has_percent(answer) or _has_percent(gold):
        return None
    differ = _exactly_differ(answer, gold)
    return None if differ is None else not differ


def _exactly_differ(answer: Any, gold: Any) -> bool | None:
    """Whether exact values differ, at fixed values of their symbols; None if that is not known."""
    with contextlib.suppress(Exception):
        if not (answer.free_symbols or gold.free_symbols):
            try:
                # An exact difference has one right digit, at whatever precision that takes.
                difference = (answer - gold).evalf(2, maxn=_SOUGHT, strict=True)
            except PrecisionExhausted:
                return False
            return bool(difference != 0) if difference.is_number and difference.is_finite else None
        places = {name: _place(name.name) for name in answer.free_symbols | gold.free_symbols}
        one, other, difference = (
            each.evalf(_SYMBOL_DIGITS, subs=places) for each in (answer, gold, answer - gold)
        )
        largest = max(abs(one), abs(other))
        if largest.is_finite:
            return bool(abs(difference) > _AGREED * largest)
    return None


def _list_and_point(answer: Any, gold: Any) -> bool:
    """Whether one is a list (``1, 2``), the other a point, interval or inequality (``(1, 2)``).

    They are the same to math-verify. A list of equations (``x = 1, y = 2``) may well say where a
    point is, and a single value is not a list.
    """
    for one, other in (_sides(answer, gold), _sides(gold, answer)):
        point = isinstance(other, sympy.Interval | sympy.Tuple) or (
            isinstance(other, sympy.Basic) and bool(other.atoms(sympy.core.relational._Inequality))
        )
        if isinstance(one, sympy.FiniteSet) and point:
            return len(one) > 1 and all(isinstance(element, sympy.Expr) for element in one.args)
    return False


def _is_value(expression: Any) -> bool:
    return isinstance(expression, sympy.Expr) and not isinstance(expression, sympy.Symbol)


def numerically_differ(answer: Any, gold: Any) -> bool:
    """Whether two expressions, or their parts, have values that are surely not the same.

    Symbols get fixed values. Where the values cannot be had, the answer is no.
    """
    if isinstance(answer, sympy.Eq) and isinstance(gold, sympy.Eq) and _apart(answer, gold):
        return True
    one, other = (_explicit(side) for side in _sides(answer, gold))
    matrices = isinstance(one, sympy.MatrixBase) and isinstance(other, sympy.MatrixBase)
    if matrices and one.shape != other.shape:
        return True
    return any(_values_differ(*pair) for pair in _pairs(one, other))


def _apart(answer: sympy.Eq, gold: sympy.Eq) -> bool:
    """Whether two equations cannot be the same one.

    math-verify compares what their solvers find, and where neither finds anything says yes.
    """
    if not (answer.free_symbols and gold.free_symbols):
        sides = ((answer.lhs, gold.lhs), (answer.rhs, gold.rhs))
        return answer.free_symbols != gold.free_symbols or any(
            _values_differ(*pair) for pair in sides
        )
    return bool(answer.lhs == gold.lhs and answer.free_symbols != gold.free_symbols)


def _explicit(expression: Any) -> Any:
    """Sums and multiples of matrices, entry by entry."""
    if isinstance(expression, sympy.MatrixExpr):
        with contextlib.suppress(Exception):
            return expression.as_explicit()
    return expression


def _sides(answer: Any, gold: Any) -> tuple[Any, Any]:
    """Expressions that must be equal: the right sides of ``x = ...``, two equations unchanged."""
    both = isinstance(answer, sympy.Eq) and isinstance(gold, sympy.Eq)
    if both and answer.lhs != gold.lhs:
        return answer, gold
    one, other = (side.rhs if isinstance(side, sympy.Eq) else side for side in (answer, gold))
    return one, other


def _pairs(answer: Any, gold: Any) -> Iterator[tuple[Any, Any]]:
    """The numbers to compare: entries, end points, elements by size, or the two themselves."""
    if isinstance(answer, sympy.MatrixBase) and isinstance(gold, sympy.MatrixBase):
        yield from zip(answer.flat(), gold.flat(), strict=True)
    elif isinstance(answer, sympy.Interval) and isinstance(gold, sympy.Interval):
        yield from ((answer.start, gold.start), (answer.end, gold.end))
    elif isinstance(answer, sympy.FiniteSet) and isinstance(gold, sympy.FiniteSet):
        parts = [_by_size(collection) for collection in (answer, gold)]
        if len(parts[0]) == len(parts[1]):
            yield from zip(*parts, strict=True)
    elif isinstance(answer, sympy.Tuple) and isinstance(gold, sympy.Tuple):
        if len(answer) == len(gold):
            yield from zip(answer, gold, strict=True)
    elif isinstance(answer, sympy.Expr) and isinstance(gold, sympy.Expr):
        yield answer, gold


def _by_size(collection: Any) -> list[Any]:
    """The elements by their values; none if one has no real value."""
    sized: list[tuple[float, Any]] = []
    for element in collection.args:
        value = _value(element)
        if value is None or value.imag:
            return []
        sized.append((value.real, element))
    return [element for _, element in sorted(sized, key=lambda pair: pair[0])]


def _values_differ(answer: Any, gold: Any) -> bool:
    if not (isinstance(answer, sympy.Expr) and isinstance(gold, sympy.Expr)):
        return False
    if answer.free_symbols != gold.free_symbols or _has_percent(answer) != _has_percent(gold):
        return False
    if answer.has(*_ENDLESS) or gold.has(*_ENDLESS):
        return False
    if not (answer.has(sympy.Float) or gold.has(sympy.Float)):
        return _exactly_differ(answer, gold) or False
    one, other = _value(answer), _value(gold)
    if one is None or other is None:
        return False
    return abs(one - other) > _DECIMAL_TOLERANCE * max(abs(one), abs(other))


def _has_percent(expression: Any) -> bool:
    return bool(expression.has(sympy.core.expr.UnevaluatedExpr))


def _value(expression: Any) -> complex | None:
    """A finite complex number, or None; each symbol gets a different value between 1 and 2."""
    if not isinstance(expression, sympy.Expr) or expression.has(*_ENDLESS):
        return None
    symbols = expression.free_symbols
    places = {symbol: _place(symbol.name) for symbol in symbols}
    # sympy may fail to evaluate what math-verify could compare; then there is no objection.
    with contextlib.suppress(Exception):
        value = complex(expression.evalf(_DIGITS, subs=places))
        if cmath.isfinite(value):
            return value
    return None


def _place(name: str) -> Any:
    """A number between 1 and 2 that depends on a symbol's name alone."""
    # A float: exact fractions grow without bound in powers.
    return sympy.Float(1 + (zlib.crc32(name.encode()) % 9973 + 1) / 9974, _SYMBOL_DIGITS)
