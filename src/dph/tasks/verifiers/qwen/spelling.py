r"""The one spelling into which the Qwen2.5-Math evaluation tool brings answers and golds.

A long row of replacements; their order is a part of the tool's behaviour, so are the oddities:
percent signs, braces' backslashes, ``and`` and ``\mathbf`` vanish, ``x=`` does, and a ``j``
becomes an ``i`` where no ``i`` is.
"""

import re
from collections.abc import Sequence
from functools import cache

# The words that the Qwen2.5-Math evaluation tool drops as units, wherever they stand alone.
#
# Some are not units at all (``ratio``, ``way``, ``no change``, single letters): leaving them out
# is a part of the tool's behaviour, and so is the order in which they go. A point in them stands
# for any character, as it does in the tool.

_IN_ORDER = (
    "east|degree|mph|kmph|ft|m sqaure| m east|sq m|deg|mile|q .|monkey|prime|ratio|"
    "profit of rs|rd|o|gm|p . m|lb|tile|per|dm|lt|gain|ab|way|west|a .|b .|c .|d .|e .|f .|"
    "g .|h .|t|a|h|no change|men|soldier|pie|bc|excess|st|inches|noon|percent|by|gal|kmh|c|"
    "acre|rise|a . m|th|\u03c0 r 2|sq|mark|l|toy|coin|sq . m|gallon|\u00b0 f|profit|minw|yr|"
    "women|feet|am|pm|hr|cu cm|square|are|rupee|rounds|cubic|cc|mtr|s|ohm|number|day|hour|"
    "minute|min|second|man|woman|sec|cube|mt|sq inch|mp|\u220f cm \u00b3|hectare|more|unit|"
    "cu . m|cm 2|rs .|rs|kg|g|month|km|m|cm|mm|apple|liter|loss|"
    "yard|pure|year|increase|decrease|d|less|Surface|"
    "litre|pi sq m|s .|metre|meter|inch"
)


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    singular = _IN_ORDER.split("|")
    units = dict.fromkeys((*singular, *(f"{unit}s" for unit in singular)))
    return tuple((unit.partition(" .")[0], re.compile(rf"(^|\W){unit}($|\W)")) for unit in units)


def without_units(text: str) -> str:
    """The text without its units. A text that is nothing but a unit stays.

    >>> without_units("12 miles"), without_units("a")
    ('12 ', 'a')
    """
    for _ in range(2):
        for hint, pattern in _patterns():
            if hint in text:
                text = pattern.sub(r"\1\2", text) or text
    return text


# English number words: ``twenty-one``, ``two hundred and five``, ``three point one four``.
#
# As the Qwen2.5-Math evaluation tool reads them, which is the only use of it: words that are no
# number are skipped, and loose numbers (``two of three``) run into one by rules of their own.

_SMALL = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = (
    {word: number for number, word in enumerate(_SMALL.split())}
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


_ARRAY_BEGIN = re.compile(r"\\begin\{array\}\{[^}\n]*\}")
_TEXT_WORD = re.compile(r"\\text\{([a-zA-Z]+)\}")
_TEXT = re.compile(r"\\text\{([^}\n]*)\}")
_MBOX = re.compile(r"\\mbox\{[^}\n]*\}")
_SQUARED_UNIT = re.compile(r"(cm|inches)\}\^2")
_ZERO_DECIMALS = re.compile(r"(\d++)\.0*+($|[^\d])")
_BARE_ROOT = re.compile(r"\\sqrt(\w++)")
_INTEGER = re.compile(r"-?[0-9]{1,1000}")

_BEFORE_UNITS = (
    *(("bmatrix", "pmatrix"), ("tfrac", "frac"), ("dfrac", "frac"), ("\\neq", "\\ne")),
    *(("\\leq", "\\le"), ("\\geq", "\\ge"), ("\\left", ""), ("\\right", "")),
    *(("\\{", "{"), ("\\}", "}")),
)
_AFTER_UNITS = tuple((mark, "") for mark in ("^{\\circ}", "^\\circ", "\\$", "$", "\\(", "\\)"))
_NAMES = tuple(
    (variable + sign, "") for sign in ("=", "\\in", "\\to") for variable in ("x", "y", "z")
)
_AFTER_NAMES = (
    ("\\emptyset", "{}"),
    ("(-\\infty,\\infty)", "\\mathbb{R}"),
    ("\\%", ""),
    ("%", ""),
    (" .", " 0."),
    ("{.", "{0."),
)


def qwen_spelling(text: str) -> str:
    r"""The tool's spelling of an answer.

    >>> qwen_spelling(r"\dfrac12 \text{ cm}"), qwen_spelling("x = 3.0"), qwen_spelling("5\\%")
    ('\\frac{1}{2}', '3', '5')
    """
    text = text.strip().replace("\n", "").rstrip(".").replace("\\!", "")
    text = _ARRAY_BEGIN.sub(r"\\begin{pmatrix}", text).replace("\\end{array}", "\\end{pmatrix}")
    text = _replaced(text, _BEFORE_UNITS)
    text = _TEXT_WORD.sub(lambda found: _word_as_digits(found[1], found[0]), text)
    text = without_units(_without_text_at_end(_SQUARED_UNIT.sub(r"\1}", text)))
    text = _replaced(text, _AFTER_UNITS)
    text = _TEXT.sub(r"\1", _word_as_digits(text, text))
    text = _replaced(text, _NAMES)
    text = _replaced(text, _AFTER_NAMES)
    text = text.replace("infinity", "\\infty")
    if "\\infty" not in text:
        text = text.replace("inf", "\\infty")
    text = text.replace("+\\inity", "\\infty").replace("and", "").replace("\\mathbf", "")
    text = _MBOX.sub("", text)
    if "j" in text and "i" not in text:
        text = text.replace("j", "i")
    text = _ZERO_DECIMALS.sub(r"\1\2", text)
    if not text:
        return ""
    text = _without_short_name("0" + text if text.startswith(".") else text)
    text = _BARE_ROOT.sub(r"\\sqrt{\1}", text).replace(" ", "")
    return _slash_as_fraction(_braced_fractions(text))


def _replaced(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def _without_text_at_end(text: str) -> str:
    r"""Everything from the first ``\\text{`` on goes when the last character closes a brace."""
    before, text_mark, _ = text.partition("\\text{")
    return (before if text_mark and text.endswith("}") else text).strip() or text


def _word_as_digits(words: str, otherwise: str) -> str:
    number = number_of_words(words)
    return otherwise if number is None else str(number)


def _without_short_name(text: str) -> str:
    """``k = 5`` is 5: a left side of up to two characters goes."""
    left, sign, right = text.partition("=")
    return right if sign and len(left) <= 2 and "=" not in right else text


def _braced_fractions(text: str) -> str:
    r"""``\frac12``, ``\frac1{2}`` and ``\frac{1}2`` get the braces that they lack."""
    first, *parts = text.split("\\frac")
    done = [first]
    for part in parts:
        if part.startswith("{"):
            done.append(part)
        elif len(part) < 2:
            return text
        elif part[1] == "{":
            done.append(f"{{{part[0]}}}{part[1:]}")
        else:
            done.append(f"{{{part[0]}}}{{{part[1]}}}{part[2:]}")
    return "\\frac".join(done)


def _slash_as_fraction(text: str) -> str:
    r"""``3/4`` is ``\frac{3}{4}``, when both are integers (or hold a root) and nothing else is."""
    top, sign, bottom = text.partition("/")
    if not sign or "/" in bottom:
        return text
    for side in (top, bottom):
        if "sqrt" not in side and not (_INTEGER.fullmatch(side) and str(int(side)) == side):
            return text
    return f"\\frac{{{top}}}{{{bottom}}}"
