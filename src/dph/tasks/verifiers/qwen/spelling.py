r"""The one spelling into which the Qwen2.5-Math evaluation tool brings answers and golds.

A long row of replacements; their order is a part of the tool's behaviour, so are the oddities:
percent signs, braces' backslashes, ``and`` and ``\mathbf`` vanish, ``x=`` does, and a ``j``
becomes an ``i`` where no ``i`` is.
"""

import re

from dph.tasks.verifiers.qwen.number_words import number_of_words
from dph.tasks.verifiers.qwen.units import without_units

_ARRAY_BEGIN = re.compile(r"\\begin\{array\}\{[^}\n]*\}")
_TEXT_WORD = re.compile(r"\\text\{([a-zA-Z]+)\}")
_TEXT = re.compile(r"\\text\{([^}\n]*)\}")
_MBOX = re.compile(r"\\mbox\{[^}\n]*\}")
_SQUARED_UNIT = re.compile(r"(cm|inches)\}\^2")
_ZERO_DECIMALS = re.compile(r"(\d++)\.0*+($|[^\d])")
_BARE_ROOT = re.compile(r"\\sqrt(\w++)")
_INTEGER = re.compile(r"-?[0-9]{1,1000}")

_BEFORE_UNITS = (
    ("bmatrix", "pmatrix"),
    ("tfrac", "frac"),
    ("dfrac", "frac"),
    ("\\neq", "\\ne"),
    ("\\leq", "\\le"),
    ("\\geq", "\\ge"),
    ("\\left", ""),
    ("\\right", ""),
    ("\\{", "{"),
    ("\\}", "}"),
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
    text = _infinity(text).replace("and", "").replace("\\mathbf", "")
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


def _infinity(text: str) -> str:
    text = text.replace("infinity", "\\infty")
    if "\\infty" not in text:
        text = text.replace("inf", "\\infty")
    return text.replace("+\\inity", "\\infty")


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
