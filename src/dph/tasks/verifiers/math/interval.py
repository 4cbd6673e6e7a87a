r"""Sets of real numbers: inequalities in one variable, rewritten as intervals of their solutions.

``2 < x < 5``, ``x \in ]2, 5[`` and ``\{x \mid 2 < x < 5\}`` become ``(2,5)``. An answer and its
gold are rewritten together, and only if they name the same variable or one of them names none.
Texts with other letters and inequalities that are not solved (``2x > 4``) stay unchanged.
"""

import re
from itertools import pairwise

from dph.tasks.verifiers.math.number import read_arithmetic

_VARIABLE = r"(?:[A-Za-df-z]|\\(?:alpha|beta|theta|lambda|mu)(?![a-z]))(?: ?_ ?\{?[0-9A-Za-z]\}?)?"
_OR_EQUAL = r"(?:eq(?:slant|q)?|e)(?![a-z])"
_SIGN = re.compile(rf" ?(<|>|\\[lg](?:{_OR_EQUAL}|t(?![a-z]))) ?")
_NOT = rf"({_VARIABLE}) ?(?:\\neq?(?![a-z])|\\not ?=) ?"
_UNEQUAL = re.compile(rf"{_NOT}(.+)")
_ALL_REALS_BUT = re.compile(
    r"(?:\\mathbb\{R\}|\(-\\infty, ?\+?\\infty\)) ?(?:\\setminus|\\backslash|-|\\) ?\\\{(.+)\\\}()"
)
_MEMBER = re.compile(rf"({_VARIABLE}) ?\\in(?![a-z]) ?(.+)")
_BUILDER = re.compile(
    rf"\\\{{ ?({_VARIABLE}) ?(?:\\in ?\\mathbb\{{R\}})? ?(?:\\mid|\||:|\\colon) ?(.+?) ?\\\}}"
)
_EQUAL = re.compile(rf"({_VARIABLE}) ?= ?(.+)")
_POINT = re.compile(r"\\\{([^,]+)\\\}()")
_INTERVAL = re.compile(r"([\[\](]) ?([^,;]+?) ?[,;] ?([^,;]+?) ?([\])\[])")
_OR = re.compile(r" ?(?:\\text\{ ?or ?\}|(?<![A-Za-z])or(?![A-Za-z])|\\(?:lor|vee|cup)(?![a-z])) ?")
_AND = re.compile(
    r" ?(,|\\text\{ ?and ?\}|(?<![A-Za-z])and(?![A-Za-z])|\\(?:land|wedge)(?![a-z])) ?"
)
# Anything that makes an endpoint more than a plain number.
_UNKNOWN = re.compile(
    r"\\(?!(?:frac|sqrt|pi|infty|ln|log|cdot|sin|cos|tan)(?![A-Za-z]))"
    r"|(?<![A-Za-z\\])[A-Za-df-z](?![A-Za-z])|[=<>\[\],;]"
)

_LOOKS_LIKE_SET = re.compile(r"[<>\[\]|]|\\(?:in|[lg]|ne|not|mathbb|cup)")

Piece = tuple[str, str]
"""A variable, or '', and the text of a set."""


def as_sets(answer: str, gold: str) -> tuple[str, str]:
    r"""Two cleaned answers, both rewritten as intervals if both can be.

    >>> as_sets("2 < x < 5", r"x \in (2,5)"), as_sets("x > 3", "y > 3")
    (('(2,5)', '(2,5)'), ('x > 3', 'y > 3'))
    """
    if not _LOOKS_LIKE_SET.search(answer) and not _LOOKS_LIKE_SET.search(gold):
        return answer, gold
    other = _read(gold)
    one = _read(answer) if other else None
    if one is None or other is None or (one[0] and other[0] and one[0] != other[0]):
        return answer, gold
    return one[1], other[1]


def _read(text: str) -> Piece | None:
    variable = ""
    if found := _BUILDER.fullmatch(text) or _MEMBER.fullmatch(text):
        variable, text = found.groups()
    parts = _OR.split(text)
    pieces = [_piece(part.strip(), only_part=len(parts) == 1) for part in parts]
    read = [piece for piece in pieces if piece is not None]
    names = {variable, *(name for name, _ in read)} - {""}
    if len(read) < len(pieces) or len(names) > 1:
        return None
    return "".join(names), r"\cup".join(piece for _, piece in read)


def _piece(text: str, *, only_part: bool) -> Piece | None:
    """The set described by a text without 'or'; a point counts only as part of a union."""
    if found := _INTERVAL.fullmatch(text):
        left, low, high, right = found.groups()
        if _UNKNOWN.search(low) or _UNKNOWN.search(high):
            return None
        return "", _interval(left == "[", low, high, right == "]")
    if text == r"\mathbb{R}":
        return "", r"(-\infty,\infty)"
    if found := _ALL_REALS_BUT.fullmatch(text):
        return _outside(found[2], found[1])
    if found := _UNEQUAL.fullmatch(text):
        return _outside(found[1], re.sub(_AND.pattern + _NOT, ",", found[2]))
    if not only_part and (found := _EQUAL.fullmatch(text) or _POINT.fullmatch(text)):
        name, value = found.groups() if found[2] else (found[2], found[1])
        return None if _UNKNOWN.search(value) else (name, rf"\{{{value}\}}")
    if found := _AND.search(text):
        return _both(text[: found.start()], text[found.end() :], comma_may_mean_or=found[1] == ",")
    return _chain(text)


def _interval(low_closed: bool, low: str, high: str, high_closed: bool) -> str:
    ends = [end.strip().replace("+\\infty", "\\infty") for end in (low, high)]
    return f"{'[' if low_closed else '('}{ends[0]},{ends[1]}{']' if high_closed else ')'}"


def _chain(text: str) -> Piece | None:
    """``a < x``, ``a < x < b``, or the same the other way round."""
    sides = _SIGN.split(text)
    values, signs = sides[::2], sides[1::2]
    up = {sign[0] == "<" or sign[1:2] == "l" for sign in signs}
    if len(values) not in (2, 3) or len(up) != 1:
        return None
    closed = [re.search(_OR_EQUAL, sign) is not None for sign in signs]
    if up == {False}:
        values, closed = values[::-1], closed[::-1]
    place = next((i for i, side in enumerate(values) if re.fullmatch(_VARIABLE, side)), None)
    if place is None or (len(values) == 3 and place != 1):
        return None
    low = values[:place] or [r"-\infty"]
    high = values[place + 1 :] or [r"\infty"]
    if _UNKNOWN.search(low[0]) or _UNKNOWN.search(high[0]):
        return None
    first = closed[0] and place > 0
    return values[place], _interval(first, low[0], high[0], closed[-1] and place < len(values) - 1)


def _outside(name: str, points: str) -> Piece | None:
    """All numbers except ``points``; None if several points cannot be put in order."""
    texts = re.split(r" ?, ?", points)
    values = {text: read_arithmetic(text) for text in texts}
    if (len(texts) > 1 and None in values.values()) or _UNKNOWN.search("".join(texts)):
        return None
    ends = [r"-\infty", *sorted(texts, key=lambda text: values[text] or 0), r"\infty"]
    return name, r"\cup".join(_interval(False, *pair, False) for pair in pairwise(ends))


def _both(one: str, other: str, *, comma_may_mean_or: bool) -> Piece | None:
    """``x > 2, x < 5`` is the interval between them; ``x < 2, x > 5`` can only mean a union."""
    chains = [_chain(one), _chain(other)]
    if chains[0] is None or chains[1] is None or chains[0][0] != chains[1][0]:
        return None
    name = chains[0][0]
    below, above = sorted((chains[0][1], chains[1][1]), key=lambda piece: r",\infty" in piece)
    low, high = (read_arithmetic(above[1:].partition(",")[0]), below[:-1].partition(",")[2])
    top = read_arithmetic(high)
    if low is None or top is None or not below.startswith(r"(-\infty"):
        return None
    if low < top:
        return name, f"{above.partition(',')[0]},{high}{below[-1]}"
    return (name, rf"{below}\cup{above}") if comma_may_mean_or else None
