"""Counts of kinds of characters: every share of characters comes from one table of a text."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ASCII = [chr(code) for code in range(128)]
_ALPHABETIC = np.array([c.isalpha() for c in _ASCII])
_DIGITS = np.array([c.isdigit() for c in _ASCII])
_SPACES = np.array([c.isspace() for c in _ASCII])
_REPLACEMENT = 0xFFFD


@dataclass(frozen=True, slots=True)
class CharacterCounts:
    """How many characters of a text are of a kind, by ``str``'s own tests."""

    total: int
    alphabetic: int
    digits: int
    """Superscripts and the like are among them."""
    spaces: int
    replacements: int
    """U+FFFD, which stands where a byte could not be decoded."""
    brackets: int
    """Curly ones."""

    @property
    def visible(self) -> int:
        """Characters that are no space."""
        return self.total - self.spaces


def count_characters(text: str) -> CharacterCounts:
    """Count the kinds of characters of ``text``.

    >>> count_characters("a1 {²}").digits
    2
    """
    if text.isascii():
        counts = np.bincount(np.frombuffer(text.encode(), np.uint8), minlength=128)
        others = np.array([], np.uint32)
        other_counts = np.array([], np.int64)
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        small = codes < 128
        counts = np.bincount(codes[small], minlength=128)
        others, other_counts = np.unique(codes[~small], return_counts=True)
    wide = [chr(code) for code in others]

    def number(ascii_kind: NDArray[np.bool_], wide_kind: list[bool]) -> int:
        beyond = int(other_counts[np.array(wide_kind, bool)].sum()) if wide_kind else 0
        return int(counts[ascii_kind].sum()) + beyond

    return CharacterCounts(
        total=len(text),
        alphabetic=number(_ALPHABETIC, [c.isalpha() for c in wide]),
        digits=number(_DIGITS, [c.isdigit() for c in wide]),
        spaces=number(_SPACES, [c.isspace() for c in wide]),
        replacements=int(other_counts[others == _REPLACEMENT].sum()),
        brackets=int(counts[ord("{")] + counts[ord("}")]),
    )
