r"""Numbers as answers: read exactly, compared exactly, rounded only where a decimal was written.

Understood are integers, decimals, thousands commas, ``a/b``, ``\frac{a}{b}``, a sign, a currency
sign before it and a percent sign after it. Anything else is left to the symbolic comparison.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

_DIGITS = 200

_INTEGER = r"(?:[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})++|[0-9]++)"
_DECIMAL = rf"(?:{_INTEGER}(?:\.[0-9]*+)?|\.[0-9]++)"
_BASED = re.compile(r"(?P<digits>[0-9A-Za-z]++)_\{?(?P<base>[0-9]++)\}?")
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?) ?(?:\\\$)? ?(?:"
    rf"\\frac ?\{{ ?(?P<minus_top>[+-]?)(?P<top>{_DECIMAL}) ?\}} ?"
    rf"\{{ ?(?P<minus_bottom>[+-]?)(?P<bottom>{_DECIMAL}) ?\}}"
    rf"|(?P<value>{_DECIMAL})(?: ?/ ?(?P<slash>{_INTEGER}))?"
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
    value = (-1) ** signs.count("-") * _rational(top) / divisor
    return Number(value, decimal="." in top + bottom, percent=found["percent"] is not None)


def numbers_equal(answer: Number, gold: Number) -> bool:
    """Whether two numbers are the same answer.

    Exact numbers have to be equal. Where one is a decimal they have to agree to 6 decimals, and
    to a relative 1e-4, which counts below 0.01. A percent sign on one side alone may be a unit
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


def bases_differ(answer: str, gold: str) -> bool:
    """Whether both are digits with a base, such as ``52_8``, and not the same.

    >>> bases_differ("52_8", "52_9"), bases_differ("52", "52_8")
    (True, False)
    """
    one, other = _BASED.fullmatch(answer), _BASED.fullmatch(gold)
    return one is not None and other is not None and one.groups() != other.groups()


def _meant(number: Number) -> Fraction:
    return number.value / 100 if number.percent else number.value


def _equal(one: Fraction, other: Fraction, *, rounded: bool) -> bool:
    if one == other or not rounded:
        return one == other
    near = abs(one - other) * 10_000 <= max(abs(one), abs(other))
    return near and round(one, 6) == round(other, 6)


def _rational(text: str) -> Fraction:
    return Fraction(text.replace("{,}", "").replace(",", "").rstrip("."))
