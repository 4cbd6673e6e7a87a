r"""Numbers as answers: read exactly, compared exactly, rounded only where a decimal was written.

Understood are integers, decimals, thousands commas, ``a/b``, ``\frac{a}{b}``, powers of ten
(``6.7e-5``, ``6.7 \times 10^{-5}``), a sign, a currency sign before it and a percent sign after
it. Anything else is left to the symbolic comparison.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from dph.tasks.verifiers.math.arithmetic import read_arithmetic

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


def notations_differ(answer: str, gold: str) -> bool:
    """Whether one is digits in a base (``52_8``) or a ratio (``3:1``), and the other is not that.

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
    r"""Whether an answer calls two different numbers equal, directly or through a name.

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
    """Whether both are numbers and not the same one, rounded or not."""
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
    """Whether both are the same digits in the same base, however that is written.

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
