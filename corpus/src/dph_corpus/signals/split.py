"""The split of a file into code and comments, by Pygments' lexer of its language.

Single-line, multi-line, special and hashbang comments and doc strings are comments; preprocessor
lines and tokens that are just ``Comment`` are code. A language that Pygments does not know is
scanned line by line.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pygments
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Literal
from pygments.util import ClassNotFound

from dph_corpus.signals.python import split_python
from dph_corpus.signals.words import SignalError, raw_words

# Lines of a text: cut at newlines only, and each keeps its own, which counts in its length.


def cut_lines(text: str) -> list[str]:
    r"""The lines of ``text``.

    A lone carriage return ends no line.

    >>> cut_lines("a\r\nb\rc")
    ['a\r\n', 'b\rc']
    """
    parts = text.split("\n")
    last = parts.pop()
    lines = [part + "\n" for part in parts]
    if last:
        lines.append(last)
    return lines


def not_blank(lines: list[str]) -> list[str]:
    """The lines that hold more than space."""
    return [line for line in lines if not line.isspace()]


# What lies in quotes, found by pairing quote marks: blind to escapes and apostrophes.
#
# Three single quotes go before three double ones, those before one of either; the shortest match
# wins.

_ACROSS_LINES = re.compile(r"'''(.*?)'''|\"\"\"(.*?)\"\"\"|'(.*?)'|\"(.*?)\"", re.DOTALL)
"""A single pair of quotes may span lines, too."""
_IN_LINES = re.compile(r"'''(.*?)'''|\"\"\"(.*?)\"\"\"|'([^\n]*?)'|\"([^\n]*?)\"", re.DOTALL)
_URL = re.compile(r"https?://\S")
_LONG_WORD = 20
_LONG_STRING = 20

_EQUALS_QUOTE = re.compile(r"=\s*[\"']")
_QUOTE_PLUS_QUOTE = re.compile(r"[\"']\s*\+\s*[\"']")
_QUOTE = re.compile(r"[\"']")


def quoted_in_lines(code: str) -> list[str]:
    """Text in quotes; those of one mark end on their line."""
    return _quoted(_IN_LINES, code)


def long_strings(code: str, natural_language: str) -> int:
    """Pieces of strings between line ends that have over 20 words, punctuation counted."""
    count = 0
    for string in _quoted(_ACROSS_LINES, code):
        if len(string) > _LONG_STRING:
            for piece in string.split("\n"):
                count += (
                    len(piece) > _LONG_STRING
                    and len(raw_words(piece, natural_language)) > _LONG_STRING
                )
    return count


def long_word_characters(strings: list[str]) -> int:
    """Characters of words in ``strings`` that have over 20 of them and hold no URL."""
    words = (word for string in strings if len(string) > _LONG_WORD for word in string.split())
    return sum(len(word) for word in words if len(word) > _LONG_WORD and not _URL.search(word))


def joins_strings(line: str) -> bool:
    """Whether ``line`` assigns two quoted strings put together by a plus.

    >>> joins_strings("x = 'a' + 'b'"), joins_strings("x = '' + 'b'")
    (True, False)
    """
    if "+" not in line or "=" not in line:
        return False
    # Each part as early as it can end leaves most room for the next: no backtracking.
    start = _EQUALS_QUOTE.search(line)
    middle = start and _QUOTE_PLUS_QUOTE.search(line, start.end() + 1)
    return bool(middle and _QUOTE.search(line, middle.end() + 1))


def _quoted(pattern: re.Pattern[str], code: str) -> list[str]:
    return [string for match in pattern.findall(code) if (string := "".join(match))]


_COMMENTS = frozenset(
    (*(Comment.Multiline, Comment.Single, Comment.Special, Comment.Hashbang), Literal.String.Doc)
)


@dataclass(frozen=True, slots=True)
class Split:
    """A file's code, put together without anything between, and its comments one by one.

    ``lexed`` is false if the language is not known and lines were taken for comments by how they
    begin. ``scanned`` is true if the comments were found by the fast scanner of Python.
    """

    code: str
    pieces: tuple[str, ...]
    lexed: bool = True
    scanned: bool = False

    @property
    def comments(self) -> str:
        """The comments, put together without anything between."""
        return "".join(self.pieces)


def split_text(text: str, language: str, tree: ast.Module | None = None) -> Split:
    """Split ``text`` of a ``language``; ``tree`` is there if it is Python that parses."""
    if language == "perl":
        return _scanned_perl(text)
    if language == "python" and tree is not None:
        scanned = split_python(as_lexed(text))
        if scanned is not None:
            code, pieces = scanned
            return Split(code, tuple(pieces), scanned=True)
    lexer = _lexer(language)
    return _scanned(text) if lexer is None else _lexed(text, lexer)


def as_lexed(text: str) -> str:
    r"""``text`` as Pygments' lexers read it.

    >>> as_lexed("\ufeff\r\nx = 1\r\n\r\n")
    'x = 1\n'
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text.strip("\n") + "\n"


def _lexed(text: str, lexer: Lexer) -> Split:
    code: list[str] = []
    comments: list[str] = []
    try:
        for kind, token in pygments.lex(text, lexer):
            (comments if kind in _COMMENTS else code).append(token)
    except Exception as error:
        raise SignalError(f"{lexer.name} lexer: {error!r}") from error
    return Split("".join(code), tuple(comments))


@cache
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language)
    except ClassNotFound:
        return None


def _scanned(text: str) -> Split:
    """After a line that begins like a comment all is comment until a block ends or begins."""
    inside = False

    def is_comment(bare: str) -> bool:
        nonlocal inside
        if bare.startswith(('"""', "/*")) or bare.endswith(('"""', "*/")):
            inside = not inside
            return True
        inside = inside or bare.startswith(("#", "//", "--"))
        return inside

    return _by_lines(text, is_comment, lexed=False)


def _scanned_perl(text: str) -> Split:
    """Lines that begin with ``#``, and those from one that begins with ``=`` to ``=cut``."""
    inside = False

    def is_comment(bare: str) -> bool:
        nonlocal inside
        if bare.startswith("="):
            inside = not bare.startswith("=cut")
            return True
        return inside or bare.startswith("#")

    return _by_lines(text, is_comment, lexed=True)


def _by_lines(text: str, is_comment: Callable[[str], bool], *, lexed: bool) -> Split:
    found: dict[bool, list[str]] = {True: [], False: []}
    for line in cut_lines(text):
        found[is_comment(line.strip())].append(line)
    return Split("".join(found[False]), tuple(found[True]), lexed=lexed)
