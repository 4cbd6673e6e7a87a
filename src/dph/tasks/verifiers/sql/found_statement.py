"""A statement that was found in a response, and what only stands in its place."""

import re
from dataclasses import dataclass

from dph.tasks.verifiers.sql.tokens import is_blank

_WORDS = re.compile(
    r"[\s<\[{(*_-]*(?:your|the|insert|write|put|place|enter|final|generated)\b[^;'\"=]{0,80}"
    r"\b(?:sql|query|statement|code|answer)\b(?:\s+(?:here|goes here|query|code))?[\s>\])}.:!*_-]*",
    re.IGNORECASE,
)
_ELLIPSIS = re.compile(
    r"[\s<\[(]*+(?:\.{3,}+|…)[\s>\])]*+|(?:select|with)\s++(?:\.{3}|…).*+",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ExtractedSQL:
    """A statement and what the response says before it."""

    statement: str
    preamble: str


def is_placeholder(text: str) -> bool:
    """Whether the text only says where SQL belongs.

    >>> is_placeholder("-- Your SQL query"), is_placeholder("<your SQL here>")
    (True, True)
    """
    if is_blank(text):
        return True
    return bool(_WORDS.fullmatch(text) or _ELLIPSIS.fullmatch(text))
