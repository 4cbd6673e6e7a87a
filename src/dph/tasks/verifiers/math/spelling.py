r"""One spelling for answers that differ in nothing but LaTeX's looks.

What is the same after this is the same answer. It never changes a value: blanks between digits
or letters stay (``1 2`` is not 12), so do brackets, signs and units.
"""

import re

_INVISIBLE = re.compile(
    r"\\(?:left|right|displaystyle|textstyle|limits|nolimits|bigl?|bigr|Bigl?|Bigr)(?![a-zA-Z])"
    r"|\\!|(?<!\\)\$"
)
_BLANKS = re.compile(r"(?:\s|~|\\(?:[,;:> ]|q?quad(?![a-zA-Z])))++")
_NEEDLESS_BLANK = re.compile(r"(?<![0-9A-Za-z]) | (?![0-9A-Za-z])")
_THOUSANDS = re.compile(r"(?<=[0-9])\\[,;:](?=[0-9]{3}(?![0-9]))")
_EMPTY_SET = re.compile(r"\\varnothing(?![a-zA-Z])")
_DEGREE = re.compile(r"\\degree(?![a-zA-Z])|\u00b0")
_FRACTION = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
_SHORT_FRACTION = re.compile(r"\\frac\s*([0-9])\s*([0-9])(?![0-9])")
_WORDS = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname)\{([^{}]*)\}")
_PERCENT = re.compile(
    r"\s*\\?%|\s*\\text\{\s*(?:percent|\\?%)\s*\}$|\s*\b(?:percent|percentage|pct)$"
)
_EDGES_LEFT = re.compile(r"(?:\s|~|(?<!\\)\$|\\(?:[,;:!> ]|q?quad(?![a-zA-Z])))++")
_LAST_MARKS = " \t\n.,;:~$"


def trim_answer(text: str) -> str:
    r"""An answer without blanks, dollar signs and punctuation around it.

    Percent, degrees, the empty set and thousands are written in one way.

    >>> trim_answer(" $9.$ "), trim_answer("5 percent"), trim_answer(r"\$18\,900")
    ('9', '5\\%', '\\$18900')
    """
    text = text.replace("\u2212", "-")
    start = _EDGES_LEFT.match(text)
    text = text[start.end() if start else 0 :]
    while (shorter := text.rstrip(_LAST_MARKS)) != text or text.endswith("\\"):
        text = shorter.rstrip("\\") if shorter.endswith("\\") else shorter
    text = _DEGREE.sub(r"^\\circ", _EMPTY_SET.sub(r"\\emptyset", text))
    return _THOUSANDS.sub("", _PERCENT.sub(r"\\%", text))


def clean_answer(text: str) -> str:
    r"""A trimmed answer without sizes of brackets and with one kind of blank and fraction.

    >>> clean_answer(r"\left( 1,\, \dfrac12 \right)")
    '( 1, \\frac{1}{2} )'
    """
    text = _BLANKS.sub(" ", _INVISIBLE.sub("", text))
    return _SHORT_FRACTION.sub(r"\\frac{\1}{\2}", _FRACTION.sub(r"\\frac", text)).strip()


def same_spelling(text: str) -> str:
    r"""A key that is equal only for answers which are spelled alike; of a cleaned answer.

    >>> same_spelling("( 1, x + 2)") == same_spelling("(1,x+2)")
    True
    >>> same_spelling("1 2") == same_spelling("12")
    False
    """
    return _NEEDLESS_BLANK.sub("", _WORDS.sub(r" \1 ", text)).strip()
