"""One file as the signals see it: its parts are worked out when the first signal asks for them.

A part that fails does so again for every signal that asks.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from dph_corpus.signals.python import PythonFacts, parse_python, python_facts
from dph_corpus.signals.split import Split, cut_lines, not_blank, quoted_in_lines, split_text
from dph_corpus.signals.words import (
    NGramShares,
    SignalError,
    ngram_shares,
    normalised_words,
    raw_words,
    simplified,
)

if TYPE_CHECKING:
    from dph_corpus.signals.javascript import JavaScriptFacts


# Counts of kinds of characters: every share of characters comes from one table of a text.

_ASCII = [chr(code) for code in range(128)]
_ALPHABETIC = np.array([c.isalpha() for c in _ASCII])
_DIGITS = np.array([c.isdigit() for c in _ASCII])
_SPACES = np.array([c.isspace() for c in _ASCII])
_REPLACEMENT = 0xFFFD


@dataclass(frozen=True, slots=True)
class CharacterCounts:
    """Number of characters of a text by kind, by ``str``'s own tests."""

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
        """Non-space characters."""
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


_Part = TypeVar("_Part")


@dataclass(frozen=True, eq=False)
class FileView:
    """A file.

    Args:
        given_text: the text as it came.
        path: where it lies; its last part gives the name and the extension.
        bytes: its size.
        language: programming or data language, '' if unknown.
        natural_language: an ISO 639-1 code.
    """

    given_text: str
    path: str = ""
    bytes: int = 0
    language: str = ""
    natural_language: str = "en"
    _failures: dict[str, SignalError] = field(default_factory=dict, init=False, repr=False)

    @property
    def length(self) -> int:
        """Characters, as they came."""
        return len(self.given_text)

    @property
    def name(self) -> str:
        """The file's name without its last extension."""
        whole = PurePosixPath(self.path).name
        stem, dot, _ = whole.rpartition(".")
        return stem if dot and stem else whole

    @property
    def extension(self) -> str:
        """The last extension without its dot, '' if there is none."""
        whole = PurePosixPath(self.path).name
        stem, dot, extension = whole.rpartition(".")
        return extension if dot and stem else ""

    @cached_property
    def text(self) -> str:
        """The text; Chinese in simplified characters."""
        return simplified(self.given_text) if self.natural_language == "zh" else self.given_text

    @cached_property
    def lines(self) -> list[str]:
        """All lines, each with its line end."""
        return cut_lines(self.text)

    @cached_property
    def characters(self) -> CharacterCounts:
        """Counts of kinds of characters."""
        return count_characters(self.text)

    @cached_property
    def words(self) -> list[str]:
        """Normalised words."""
        return normalised_words(self.text, self.natural_language)

    @cached_property
    def raw_words(self) -> list[str]:
        """Words as they stand, and runs of punctuation."""
        return raw_words(self.text, self.natural_language)

    @cached_property
    def ngrams(self) -> NGramShares:
        """Shares of repeated n-grams of normalised words."""
        return ngram_shares(self.words)

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree of Python that parses."""
        return parse_python(self.text) if self.language == "python" else None

    @cached_property
    def python(self) -> PythonFacts | None:
        """Definitions of Python that parses."""
        return None if self.tree is None else python_facts(self.tree)

    @property
    def split(self) -> Split:
        """Code and comments."""
        return self._part("split", lambda: split_text(self.text, self.language, self.tree))

    @cached_property
    def code_lines(self) -> list[str]:
        """Lines of code that hold more than space."""
        return not_blank(cut_lines(self.split.code))

    @cached_property
    def comment_lines(self) -> list[str]:
        """Lines of the comments put together, that hold more than space."""
        return not_blank(cut_lines(self.split.comments))

    @cached_property
    def strings(self) -> list[str]:
        """Text in quotes in the code."""
        return quoted_in_lines(self.split.code)

    @property
    def javascript(self) -> "JavaScriptFacts | None":
        """Declarations of JavaScript that parses."""
        from dph_corpus.signals.javascript import javascript_facts  # noqa: PLC0415 - loads esprima

        return self._part("javascript", lambda: javascript_facts(self.text))

    @cached_property
    def visible_text(self) -> str | None:
        """Visible text of HTML, None if it cannot be parsed."""
        from dph_corpus.signals.javascript import visible_text  # noqa: PLC0415 - loads beautifulsoup4

        return visible_text(self.text)

    def _part(self, name: str, make: Callable[[], _Part]) -> _Part:
        """A part that may fail; the failure is kept as the part would be."""
        if name in self._failures:
            raise self._failures[name]
        if name not in self.__dict__:
            try:
                self.__dict__[name] = make()
            except SignalError as failure:
                self._failures[name] = failure
                raise
        part: _Part = self.__dict__[name]
        return part
