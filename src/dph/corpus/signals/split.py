"""The split of a file into code and comments, by Pygments' lexer of its language.

Single-line, multi-line, special and hashbang comments and doc strings are comments; preprocessor
lines and tokens that are just ``Comment`` are code. A language that Pygments does not know is
scanned line by line.
"""

import ast
from dataclasses import dataclass
from functools import cache

import pygments
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Literal
from pygments.util import ClassNotFound

from dph.corpus.signals.failure import SignalError
from dph.corpus.signals.lines import cut_lines
from dph.corpus.signals.python_split import split_python

_COMMENTS = frozenset(
    (
        *(Comment.Multiline, Comment.Single, Comment.Special, Comment.Hashbang),
        Literal.String.Doc,
    )
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
    """Split ``text`` of a programming ``language``; ``tree`` is there if it is Python that parses.

    Raises:
        SignalError: the lexer gave up.
    """
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
    code: list[str] = []
    comments: list[str] = []
    inside = False
    for line in cut_lines(text):
        bare = line.strip()
        if bare.startswith(('"""', "/*")) or bare.endswith(('"""', "*/")):
            inside = not inside
            comments.append(line)
        elif inside or bare.startswith(("#", "//", "--")):
            inside = True
            comments.append(line)
        else:
            code.append(line)
    return Split("".join(code), tuple(comments), lexed=False)


def _scanned_perl(text: str) -> Split:
    """Lines that begin with ``#``, and those from one that begins with ``=`` to ``=cut``."""
    code: list[str] = []
    comments: list[str] = []
    inside = False
    for line in cut_lines(text):
        bare = line.strip()
        if bare.startswith("="):
            inside = not bare.startswith("=cut")
            comments.append(line)
        elif inside or bare.startswith("#"):
            comments.append(line)
        else:
            code.append(line)
    return Split("".join(code), tuple(comments))
