r"""Where the answer of a mathematical response stands: boxes first, then phrases.

The last ``\boxed{...}`` whose braces close counts. Boxes that only commas, ``and`` or ``or``
keep apart are one answer of several parts, so that ``\boxed{1} or \boxed{2}`` is not a free
second guess. Without a box, the rest of the paragraph after the last final-answer phrase counts.
The closing sentence of the Minerva prompt (``The final answer is ... I hope it is correct.``)
counts more than a box before it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

PHRASES = ("final answer is", "answer is", "final answer:", "answer:")
LONGEST_ANSWER = 5000

_MOST_BOXES = 20
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_BETWEEN_BOXES = re.compile(
    r"(?:[\s$,;&]|\\[()\[\]]|\\(?:,|;|quad|qquad)(?![a-zA-Z])|"
    r"\\text\{\s*,?\s*(?:and|or)\s*\}|and|or)*+"
)
_TOKEN = re.compile(r"\\.|[{}]", re.DOTALL)
_MINERVA_START, _MINERVA_END = "final answer is", "I hope it is correct"
_DECORATION = " \t\n*_:"


class Place(Enum):
    """How an answer was found."""

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
    minerva = _after_phrase(response, (_MINERVA_START,), end=_MINERVA_END)
    if minerva and "box" not in minerva.context:
        return minerva
    if boxes := last_boxes(response):
        return FoundAnswer(boxes, Place.BOX)
    return _after_phrase(response, phrases)


def _after_phrase(response: str, phrases: Sequence[str], end: str = "") -> FoundAnswer | None:
    """What follows the last of the phrases, up to an empty line or ``end``, which must be there."""
    lower = response.lower()
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
    """What the last group of boxes holds, one after the other; empty if no box is closed."""
    starts = [found.span() for found in _BOX.finditer(text)][-_MOST_BOXES:]
    parts: list[str] = []
    group_start = -1
    for start, inside in reversed(starts):
        end = _closing_brace(text, inside)
        if end is None:
            continue
        if parts and not _BETWEEN_BOXES.fullmatch(text, end + 1, group_start):
            break
        parts.append(text[inside:end].strip())
        group_start = start
    return tuple(reversed(parts))


def _closing_brace(text: str, inside: int) -> int | None:
    r"""Where the brace opened before ``inside`` closes; ``\{`` and ``\}`` do not count."""
    depth = 1
    for token in _TOKEN.finditer(text, inside, inside + LONGEST_ANSWER + 2):
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if not depth:
                return token.start()
    return None
