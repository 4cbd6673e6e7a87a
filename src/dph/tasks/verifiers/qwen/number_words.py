"""English number words: ``twenty-one``, ``two hundred and five``, ``three point one four``.

As the Qwen2.5-Math evaluation tool reads them, which is the only use of it: words that are no
number are skipped, and loose numbers (``two of three``) run into one by rules of their own.
"""

from collections.abc import Sequence

_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = (
    {word: number for number, word in enumerate(_SMALL)}
    | {word: 10 * number for number, word in enumerate(_TENS, start=2)}
    | {"hundred": 100}
)
_SCALES = {"billion": 10**9, "million": 10**6, "thousand": 10**3}
_POINT = "point"
_MOST_DIGITS = 1000


def number_of_words(text: str) -> int | float | None:
    """The number that the number words of a text spell; None if there is none.

    Other words are skipped, and a text of nothing but digits is that number.

    >>> number_of_words("two hundred and five apples"), number_of_words("073")
    (205, 73)
    """
    plain = text.replace("-", " ").lower()
    if plain.isdecimal():
        return int(plain) if len(plain) <= _MOST_DIGITS else None
    words = [word for word in plain.split() if word in _VALUES or word in (*_SCALES, _POINT)]
    if not words or any(words.count(word) > 1 for word in (*_SCALES, _POINT)):
        return None
    place = words.index(_POINT) if _POINT in words else len(words)
    whole = _whole(words[:place])
    return None if whole is None else whole + _decimals(words[place + 1 :])


def _decimals(words: Sequence[str]) -> int | float:
    """``one four`` is 0.14; anything but digits counts for nothing."""
    digits = [_VALUES.get(word, 10) for word in words]
    return float(f"0.{''.join(map(str, digits))}") if digits and max(digits) <= 9 else 0


def _whole(words: Sequence[str]) -> int | None:
    """The groups before each scale and after the last, added; None when the scales do not fall."""
    if len(words) <= 1:
        return (_VALUES | _SCALES)[words[0]] if words else 0
    scales = [word for word in words if word in _SCALES]
    if scales != sorted(scales, key=lambda word: -_SCALES[word]):
        return None
    total, start = 0, 0
    for scale in scales:
        end = words.index(scale)
        group = _group(words[start:end])
        if group is None:
            return None
        total, start = total + group * _SCALES[scale], end + 1
    # A last word that is a scale counts twice when another scale stands before it.
    before = words.index(scales[-2]) + 1 if len(scales) > 1 else start
    return total + (_group(words[start:] or words[before:]) or 0)


def _group(words: Sequence[str]) -> int | None:
    """``two hundred five`` is 2 * 100 + 5, and any three numbers go the same way."""
    numbers = [(_VALUES | _SCALES)[word] for word in words]
    match numbers:
        case []:
            return None
        case [one, other] if 100 not in numbers:
            return one + other
        case [one, other, *more] if len(more) <= 2:
            return one * other + sum(more)
        case _:
            return numbers[0]
