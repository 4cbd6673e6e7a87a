r"""Numbers as answers: read exactly, compared exactly, rounded only where a decimal was written.

Understood are integers, decimals, thousands commas, ``a/b``, ``\frac{a}{b}``, powers of ten
(``6.7e-5``, ``6.7 \times 10^{-5}``), a sign, a currency sign before it and a percent sign after
it. Anything else is left to the symbolic comparison.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import comb, factorial, isqrt

_DIGITS = 200

_INTEGER = r"(?:[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})++|[0-9]++)"
_DECIMAL = rf"(?:{_INTEGER}(?:\.[0-9]*+)?|\.[0-9]++)"
_BASED = re.compile(
    r"\(?(?P<digits>[0-9A-Za-z]++)\)? ?_ ?\{? ?(?:\\(?:text|mathrm)\{ ?)?(?P<base>[0-9]++) ?\}*+"
)
_PLAIN_DIGITS = re.compile(r"[0-9]++")
_POWER = (
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,3})"
    r"| ?\\(?:times|cdot) ?10 ?\^ ?(?:\{ ?(?P<power>[+-]? ?[0-9]{1,3}) ?\}|(?P<digit>[0-9])))"
)
_PLAIN = re.compile(rf"[+-]?{_DECIMAL}")
_NAME = re.compile(r"[A-Za-z]|\\[A-Za-z]++")
_RATIO = re.compile(r"[0-9]++(?: ?: ?[0-9]++)++")
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?) ?(?:\\\$)? ?(?:"
    rf"\\frac ?\{{ ?(?P<minus_top>[+-]?)(?P<top>{_DECIMAL}) ?\}} ?"
    rf"\{{ ?(?P<minus_bottom>[+-]?)(?P<bottom>{_DECIMAL}) ?\}}"
    rf"|(?P<value>{_DECIMAL})(?:{_POWER}| ?/ ?(?P<slash>{_INTEGER}))?"
    rf")(?P<percent> ?\\%)?"
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written: ``value`` without the percent sign, if it has one."""

    value: Fraction
    decimal: bool
    percent: bool


def read_number(text: str) -> Number | None:
    r"""The number that the whole (cleaned) text spells, or None.

    >>> read_number(r"-\frac{1}{2}").value, read_number("1,250.5").value, read_number("1,2")
    (Fraction(-1, 2), Fraction(2501, 2), None)
    """
    if len(text) > _DIGITS:
        return None
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    top, bottom = found["top"] or found["value"], found["bottom"] or found["slash"] or "1"
    divisor = _rational(bottom)
    if not divisor:
        return None
    signs = (found["sign"], found["minus_top"], found["minus_bottom"])
    power = found["exponent"] or found["power"] or found["digit"] or "0"
    value = (-1) ** signs.count("-") * _rational(top) / divisor
    value *= Fraction(10) ** int(power.replace(" ", ""))
    return Number(value, decimal="." in top + bottom, percent=found["percent"] is not None)


def numbers_equal(answer: Number, gold: Number) -> bool:
    """True if two numbers are the same answer.

    Exact numbers must be equal. If one is a decimal they must agree to 6 decimals, and
    to a relative 1e-4, which counts below 0.01. A percent sign on only one side may be a unit
    (5% for 5) or mean a division by 100 (5% for 0.05), but two integers never differ by 100.
    """
    if answer.percent == gold.percent:
        return _equal(answer.value, gold.value, rounded=answer.decimal or gold.decimal)
    rounded = answer.decimal or gold.decimal
    if _equal(answer.value, gold.value, rounded=rounded):
        return True
    if answer.value.denominator == gold.value.denominator == 1:
        return False
    return _equal(_meant(answer), _meant(gold), rounded=rounded)


def notations_differ(answer: str, gold: str) -> bool:
    """True if one is digits in a base (``52_8``) or a ratio (``3:1``), and the other is not that.

    ``52_8`` is neither ``52_9`` nor 52. A ratio may equal a fraction, but not a whole number.

    >>> notations_differ("52_8", "52_{8}"), notations_differ("52", "52_8")
    (False, True)
    """
    one, other = _BASED.fullmatch(answer), _BASED.fullmatch(gold)
    if one and other:
        return one.groups() != other.groups()
    plain = _PLAIN_DIGITS.fullmatch(gold if one or _RATIO.fullmatch(answer) else answer)
    special = one or other or _RATIO.fullmatch(answer) or _RATIO.fullmatch(gold)
    return plain is not None and special is not None


def contradicts_itself(answer: str) -> bool:
    r"""True if an answer calls two different numbers equal, directly or through a name.

    Where a decimal or a fraction was rounded, they may differ by less than one of the last digit.

    >>> contradicts_itself("6 = 5"), contradicts_itself("6 = x = 5")
    (True, True)
    >>> contradicts_itself(r"\frac{2}{3} = 0.66"), contradicts_itself(r"6 = 2x \implies x = 3")
    (False, False)
    >>> contradicts_itself("2 + 2 = 5"), contradicts_itself(r"x = \sqrt{16} = 4")
    (True, False)
    """
    sides = [side.strip() for side in answer.split("=")]
    known = [side for side in sides if not _NAME.fullmatch(side)]
    return any(_unequal(one, other) for one, other in pairwise(known))


def _unequal(one: str, other: str) -> bool:
    """True if both are numbers and not the same one, rounded or not."""
    first, second = read_value(one), read_value(other)
    if first is None or second is None or numbers_equal(first, second):
        return False
    if first.percent or second.percent:
        return False
    places = [len(text.partition(".")[2]) for text in (one, other) if _PLAIN.fullmatch(text)]
    if places == [0, 0]:  # two integers
        return True
    if not places:  # sums of rounded numbers may be off by more than each of them
        return not (first.decimal or second.decimal)
    return abs(first.value - second.value) >= Fraction(1, 10 ** min(places))


def read_value(text: str) -> Number | None:
    """The number that the whole (cleaned) text is, or that its sums and products come to."""
    if number := read_number(text):
        return number
    value = read_arithmetic(text)
    return None if value is None else Number(value, decimal="." in text, percent=False)


def same_in_base(answer: str, gold: str) -> bool:
    """True if both are the same digits in the same base, however that is written.

    >>> same_in_base("(52)_8", "52_{8}")
    True
    """
    one, other = _BASED.fullmatch(answer), _BASED.fullmatch(gold)
    return bool(one and other and one.groups() == other.groups())


def _meant(number: Number) -> Fraction:
    return number.value / 100 if number.percent else number.value


def _equal(one: Fraction, other: Fraction, *, rounded: bool) -> bool:
    if one == other or not rounded:
        return one == other
    near = abs(one - other) * 10_000 <= max(abs(one), abs(other))
    return near and round(one, 6) == round(other, 6)


def _rational(text: str) -> Fraction:
    return Fraction(text.replace("{,}", "").replace(",", "").rstrip("."))


# Sums, powers, roots and the like are read without sympy and compared exactly, however close or
# large: 1/2006! is not 1/2004!. What holds a letter, a unit or a function has no value here, nor
# has a root that is not rational.

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
            value = self._group()
            root = Fraction(isqrt(abs(value.numerator)), isqrt(value.denominator))
            if root * root != value:
                raise _NoValueError
            return root
        if token in _CLOSING:
            self._tokens.append(token)
            return self._group()
        if token[:1].isdigit() or token[:1] == ".":
            number = _bounded(Fraction(token))
            if self.next != r"\frac":
                return number
            # With any but a proper fraction behind it, it is read in two ways.
            part = self._single()
            if number.denominator == 1 and 0 < part < 1 and self.next not in ("^", "!", r"\frac"):
                return number + part
        raise _NoValueError

    def _group(self) -> Fraction:
        opening = self._tokens.pop() if self._tokens else ""
        if opening not in _CLOSING:
            raise _NoValueError
        value = self.sum()
        if not self._tokens or self._tokens.pop() != _CLOSING[opening]:
            raise _NoValueError
        return value


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _LARGEST_BITS:
        raise _NoValueError
    return value
