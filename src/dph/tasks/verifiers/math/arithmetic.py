r"""The exact value of sums, products, fractions, powers, roots and factorials of numbers.

Read without sympy and compared exactly, however close or large: ``\frac{1}{2006!}`` is not
``\frac{1}{2004!}``. What holds a letter, a unit or a function has no value here, nor has a root
that is not rational.
"""

import re
from fractions import Fraction
from math import comb, factorial, isqrt

_LONGEST = 200
_LARGEST_BITS = 1 << 16
_LARGEST_FACTORIAL = 6000

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)"
    r"|(?P<word>\\(?:frac|sqrt|binom|cdot|times|div)(?![A-Za-z]))|(?P<sign>[-+*/^!(){}]))\s*"
)
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+(?![0-9,])")
_TIMES = ("*", r"\cdot", r"\times")
_OVER = ("/", r"\div")
_CLOSING = {"(": ")", "{": "}"}


class _NoValueError(Exception):
    """The text is not such an expression."""


def read_arithmetic(text: str) -> Fraction | None:
    r"""The value of a (cleaned) expression of numbers, or None.

    >>> read_arithmetic("2 + 2"), read_arithmetic(r"\frac{1 + 2}{2} \cdot 2^3")
    (Fraction(4, 1), Fraction(12, 1))
    >>> read_arithmetic("2 x"), read_arithmetic(r"\sqrt{16}"), read_arithmetic(r"\sqrt{17}")
    (None, Fraction(4, 1), None)
    >>> read_arithmetic(r"2\frac{1}{2}"), read_arithmetic("3!/2"), read_arithmetic("2(1 + 2)")
    (Fraction(5, 2), Fraction(3, 1), Fraction(6, 1))
    """
    tokens = _tokens(text)
    if tokens is None:
        return None
    try:
        reader = _Reader(tokens)
        value = reader.sum()
        return value if reader.next is None else None
    except (_NoValueError, ZeroDivisionError):
        return None


def _tokens(text: str) -> list[str] | None:
    if len(text) > _LONGEST:
        return None
    if "," in text and "(" not in text:  # not (1,200), which is a point
        text = _THOUSANDS.sub(lambda number: re.sub("[{,}]", "", number[0]), text)
    tokens: list[str] = []
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            return None
        tokens.append(found[0].strip())
        place = found.end()
    return tokens


class _Reader:
    """Reads a sum from left to right; ``next`` is the token that comes."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens[::-1]

    @property
    def next(self) -> str | None:
        return self._tokens[-1] if self._tokens else None

    def sum(self) -> Fraction:
        value = self._product()
        while self.next in ("+", "-"):
            sign = self._tokens.pop()
            term = self._product()
            value = _bounded(value + term if sign == "+" else value - term)
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        divided = False
        while self.next in (*_TIMES, *_OVER, "(", r"\sqrt"):
            side_by_side = self.next in ("(", r"\sqrt")
            if side_by_side and divided:  # 1/2(3) is read in two ways
                raise _NoValueError
            over = not side_by_side and self._tokens.pop() in _OVER
            divided = divided or over
            factor = self._signed()
            value = _bounded(value / factor if over else value * factor)
        return value

    def _signed(self) -> Fraction:
        if self.next in ("+", "-"):
            return -self._signed() if self._tokens.pop() == "-" else self._signed()
        base = self._single()
        if self.next == "!":
            self._tokens.pop()
            if base.denominator != 1 or not 0 <= base <= _LARGEST_FACTORIAL or self.next == "!":
                raise _NoValueError
            base = Fraction(factorial(int(base)))
        if self.next != "^":
            return base
        self._tokens.pop()
        exponent = self._signed() if self.next in ("+", "-") else self._single()
        if exponent.denominator != 1 or self.next in ("^", "!"):
            raise _NoValueError
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits * abs(exponent) > 2 * _LARGEST_BITS and abs(base) != 1:
            raise _NoValueError
        return _bounded(base ** int(exponent))

    def _single(self) -> Fraction:
        token = self._tokens.pop() if self._tokens else ""
        if token == r"\frac":
            return self._group() / self._group()
        if token == r"\binom":
            top, bottom = self._group(), self._group()
            if top.denominator != 1 or bottom.denominator != 1 or not 0 <= bottom <= top <= 5000:
                raise _NoValueError
            return Fraction(comb(int(top), int(bottom)))
        if token == r"\sqrt":
            return _root(self._group())
        if token in _CLOSING:
            self._tokens.append(token)
            return self._group()
        if token[:1].isdigit() or token[:1] == ".":
            number = _bounded(Fraction(token))
            return self._mixed(number) if self.next == r"\frac" else number
        raise _NoValueError

    def _mixed(self, whole: Fraction) -> Fraction:
        r"""A number with a proper fraction behind it; with any other it is read in two ways."""
        part = self._single()
        if whole.denominator != 1 or not 0 < part < 1 or self.next in ("^", "!", r"\frac"):
            raise _NoValueError
        return whole + part

    def _group(self) -> Fraction:
        opening = self._tokens.pop() if self._tokens else ""
        if opening not in _CLOSING:
            raise _NoValueError
        value = self.sum()
        if not self._tokens or self._tokens.pop() != _CLOSING[opening]:
            raise _NoValueError
        return value


def _root(value: Fraction) -> Fraction:
    if value < 0:
        raise _NoValueError
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    if root * root != value:
        raise _NoValueError
    return root


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _LARGEST_BITS:
        raise _NoValueError
    return value
