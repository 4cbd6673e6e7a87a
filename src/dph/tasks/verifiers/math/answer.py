r"""Find the answer of a mathematical response: boxes first, then phrases.

The last ``\boxed{...}`` whose braces close, and that holds an answer, counts: an empty box or
``\boxed{\text{answer}}`` only mentions the form. Boxes that only commas, ``and`` or ``or`` keep
apart are one answer of several parts, so that ``\boxed{1} or \boxed{2}`` is not a free second
guess. Without a box, the first line ``#### 72`` counts, as GSM8K has it: a base model then writes
another question, and nothing after that is read. Without either, the rest of the paragraph after
the last final-answer phrase counts. The closing sentence of the Minerva prompt (``The final answer
is ... I hope it is correct.``) counts more than a box before it. All this inside of the last
``<answer>`` element, if there is one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from dph.tasks.verifiers.math.notation import latex_signs, plain_notation

# One spelling for answers that differ in nothing but LaTeX's looks.
#
# What is the same after this is the same answer. It never changes a value: blanks between digits
# or letters stay (``1 2`` is not 12), so do brackets, signs and units.

_INVISIBLE = re.compile(
    r"\\(?:left|right|displaystyle|textstyle|limits|nolimits|bigl?|bigr|Bigl?|Bigr)(?![a-zA-Z])"
    r"|\\!|(?<!\\)\$"
)
_BLANKS = re.compile(r"(?:\s|~|\\(?:[,;:> ]|q?quad(?![a-zA-Z])))++")
_NEEDLESS_BLANK = re.compile(r"(?<![0-9A-Za-z]) | (?![0-9A-Za-z])")
_EMPTY_SET = re.compile(r"\\varnothing(?![a-zA-Z])")
_FRACTION = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
_SHORT_FRACTION = re.compile(r"\\frac\s*([0-9])\s*([0-9])(?![0-9])")
_WORDS = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname)\{([^{}]*)\}")
_PERCENT = re.compile(
    r"\s*\\?%|\s*\\text\{\s*(?:percent|\\?%)\s*\}$|\s*\b(?:percent|percentage|pct)$"
)
_THRICE = re.compile(r"(\.[0-9]{0,30}?([0-9]{1,12}?)\2\2+) ?\.\.\.")  # 0.333..., not 5...
_EDGES_LEFT = re.compile(r"(?:\s|~|(?<!\\)\$|\\(?:[,;:!> ]|q?quad(?![a-zA-Z])))++")
_LAST_MARKS = " \t\n.,;:~$"


@lru_cache(maxsize=1024)  # the samples of a problem give the same few answers
def trim_answer(text: str) -> str:
    r"""An answer without blanks, dollar signs and punctuation around it.

    Numbers, signs, functions, percent, degrees and the empty set are written in one way.

    >>> trim_answer(" $9.$ "), trim_answer("5 percent"), trim_answer(r"\$18\,900")
    ('9', '5\\%', '\\$18900')
    """
    text = _THRICE.sub(r"\1\\ldots", latex_signs(text)) if "..." in text else latex_signs(text)
    start = _EDGES_LEFT.match(text)
    text = text[start.end() if start else 0 :]
    while (shorter := text.rstrip(_LAST_MARKS)) != text or text.endswith("\\"):
        text = shorter.rstrip("\\") if shorter.endswith("\\") else shorter
    text = _EMPTY_SET.sub(r"\\emptyset", plain_notation(text))
    return _PERCENT.sub(r"\\%", text)


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


_ELEMENT = "<answer>"
PHRASES = ("final answer is", "answer is", "final answer:", "answer:")
LONGEST_ANSWER = 5000

_MOST_BOXES = 20
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_BETWEEN_BOXES = re.compile(
    r"(?:[\s$,;&]|\\[()\[\]]|\\(?:,|;|quad|qquad)(?![a-zA-Z])|"
    r"\\text\{\s*,?\s*(?:and|or)\s*\}|and|or)*+"
)
_TOKEN = re.compile(r"\\.|[{}]", re.DOTALL)
# Content of a box that only mentions the form asked for.
_NOTHING = (
    r"(?:[\s~$.?_\u2026{}]|\\(?:[,;:!_ ]|(?:q?quad|[lc]?dots|square|Box)(?![a-zA-Z]))"
    r"|\\(?:text|textbf|textit|mathrm|mathbf)(?=\s*\{))*+"
)
_MENTION = re.compile(
    rf"{_NOTHING}(?:[<\[(]?(?:(?:your|the|my|insert|final|numerical)[\s_]+)*+(?:answer|result)s?"
    rf"(?:[\s_]+here)?[>\])]?{_NOTHING})?",
    re.IGNORECASE,
)
# ``#### 72 clips``, but neither the heading ``#### 1. The sum`` nor ``#### 1`` before ``#### 2``.
_HASH_LINE = re.compile(
    r"^[ \t]*####[ \t]*\**(\$?[-+\u2212]?(?:\\?[$\u20ac\u00a3])?(?:\.?[0-9]|\\[dt]?frac)\S*"
    r"(?:(?<![.:)]) [a-z0-9%][^\s.:]*){0,4})\**[ \t]*$",
    re.MULTILINE,
)
_SECOND_HEADING = re.compile(r"^[ \t]*####[ \t]*2[ \t]*$", re.MULTILINE)
_NEXT_QUESTION = re.compile(
    r"^[ \t]*[*#_]*\s*(?:Question|Problem|Q|Exercise|Example|Human|User|Instruction)\b"
    r"[^:\n]{0,12}:",
    re.IGNORECASE | re.MULTILINE,
)
_MINERVA_START, _MINERVA_END = "final answer is", "I hope it is correct"
_DECORATION = " \t\n*_:"


class Place(Enum):
    """Place where an answer was found."""

    BOX = auto()
    PHRASE = auto()


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """The parts of an answer, one for each box; a phrase gives one, ``context`` starts with it."""

    parts: tuple[str, ...]
    place: Place
    context: str = ""


def find_answer(response: str, phrases: Sequence[str] = PHRASES) -> FoundAnswer | None:
    r"""The answer in a response, or None if it has neither a box nor a phrase.

    >>> find_answer(r"$\boxed{\frac{1}{2}}$, so the answer is clear.").parts
    ('\\frac{1}{2}',)
    >>> find_answer(r"$\boxed{2}$ and $\boxed{3}$").parts, find_answer("The answer is 5.").parts
    (('2', '3'), ('5.',))
    """
    if (start := response.lower().rfind(_ELEMENT)) >= 0:
        inside = response[start + len(_ELEMENT) :].partition("</")[0]
        return find_answer(inside, phrases) or FoundAnswer((inside,), Place.PHRASE, inside)
    line = _HASH_LINE.search(response) if "####" in response else None
    if line and line[1] == "1" and _SECOND_HEADING.search(response, line.end()):
        line = None
    if line and (another := _NEXT_QUESTION.search(response, line.end())):
        response = response[: another.start()]
    minerva = _after_phrase(response, (_MINERVA_START,), end=_MINERVA_END)
    if minerva and not line and "box" not in minerva.context:
        return minerva
    if boxes := last_boxes(response):
        return FoundAnswer(boxes, Place.BOX)
    if line:
        return FoundAnswer((line[1],), Place.PHRASE, line[1])
    return _after_phrase(response, phrases)


def _after_phrase(response: str, phrases: Sequence[str], end: str = "") -> FoundAnswer | None:
    """Text after the last of the phrases, up to an empty line or ``end``, which must be there."""
    lower = response.lower().replace("\uff1a", ":")
    if len(lower) != len(response):  # a letter whose lower case is longer: places would shift
        lower = response
    # The longest of two phrases that end at the same place.
    place, start = max(
        ((lower.rfind(phrase) + len(phrase), lower.rfind(phrase)) for phrase in phrases),
        key=lambda found: (found[0] if found[1] >= 0 else -1, -found[1]),
        default=(-1, -1),
    )
    if start < 0 or end not in response[place:]:
        return None
    rest = response[place:].partition(end)[0] if end else response[place:]
    text = rest.lstrip(_DECORATION).partition("\n\n")[0].partition(_MINERVA_END)[0]
    text = text[: LONGEST_ANSWER + 1].strip(_DECORATION)
    return FoundAnswer((text,), Place.PHRASE, response[start:]) if text else None


def has_box(text: str) -> bool:
    """Whether a box begins in the text, closed or not."""
    return _BOX.search(text) is not None


def last_boxes(text: str) -> tuple[str, ...]:
    """Contents of the last group of boxes, one after the other; no box that is open or empty."""
    starts = [found.span() for found in _BOX.finditer(text)][-_MOST_BOXES:]
    parts: list[str] = []
    group_start = -1
    for start, inside in reversed(starts):
        end = _closing_brace(text, inside)
        if end is None:
            continue
        if _MENTION.fullmatch(text, inside, end):
            continue
        if parts and not _BETWEEN_BOXES.fullmatch(text, end + 1, group_start):
            break
        parts.append(text[inside:end].strip())
        group_start = start
    return tuple(reversed(parts))


def _closing_brace(text: str, inside: int) -> int | None:
    r"""End of the brace opened before ``inside``; ``\{`` and ``\}`` do not count."""
    depth = 1
    for token in _TOKEN.finditer(text, inside, inside + LONGEST_ANSWER + 2):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if not depth:
                return token.start()
    return None
