"""A small tokenizer for SQL: words, literals, symbols, and how deep in parentheses each one is.

It never fails: text that is not SQL gives symbols. It reads any input only once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto


class TokenKind(Enum):
    """Kind of a token."""

    WORD = auto()
    """A keyword or a bare name."""
    QUOTED_NAME = auto()
    """A name in double quotes, backticks or brackets."""
    STRING = auto()
    NUMBER = auto()
    SYMBOL = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """One token; ``word`` is its text in upper case if it is a WORD, else empty."""

    kind: TokenKind
    text: str
    word: str
    start: int
    depth: int
    """Parentheses open before it; an opening and its closing one have the same depth."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_name(self) -> bool:
        """True if it can be the name of a table or a column (keywords can, too)."""
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED_NAME)


_SPACE_OR_COMMENT = re.compile(r"(?:\s++|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?)++")
_WORD = re.compile(r"[^\W\d][\w$]*+")
_NUMBER = re.compile(r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_SYMBOL = re.compile(r"<>|<=|>=|==|!=|\|\||.", re.DOTALL)
_BEFORE_STRING = frozenset(
    ("X", "LIKE", "GLOB", "IN", "AND", "OR", "NOT", "WHEN", "THEN", "ELSE", "SELECT", "BY")
)
_CLOSING = {"'": "'", '"': '"', "`": "`", "[": "]"}


def tokenize(text: str, start: int = 0) -> Iterator[Token]:
    """The tokens of ``text`` from ``start`` on; blanks and comments are left out.

    A quote that is never closed is a symbol, and so is the apostrophe of prose ("let's").

    >>> [token.text for token in tokenize("SELECT 'a; b' -- note")]
    ['SELECT', "'a; b'"]
    """
    position, depth = start, 0
    unclosed: set[str] = set()
    word, word_end = "", -1
    while position < len(text):
        if blank := _SPACE_OR_COMMENT.match(text, position):
            position = blank.end()
            continue
        if text[position] == "'" and position == word_end and word not in _BEFORE_STRING:
            kind, end = TokenKind.SYMBOL, position + 1
        else:
            kind, end = _next(text, position, unclosed)
        value = text[position:end]
        word, word_end = (value.upper(), end) if kind is TokenKind.WORD else ("", -1)
        if value == ")" and depth:
            depth -= 1
        yield Token(kind, value, word, position, depth)
        if value == "(":
            depth += 1
        position = end


def first_word(text: str) -> str:
    """The first token in upper case if it is a word, else ''.

    >>> first_word("/* why */ select 1")
    'SELECT'
    """
    blank = _SPACE_OR_COMMENT.match(text)
    word = _WORD.match(text, blank.end() if blank else 0)
    return word.group().upper() if word else ""


def is_blank(text: str) -> bool:
    """True if a text holds nothing but blanks and comments.

    >>> is_blank(" -- nothing")
    True
    """
    blank = _SPACE_OR_COMMENT.match(text)
    return not text or (blank is not None and blank.end() == len(text))


def _next(text: str, position: int, unclosed: set[str]) -> tuple[TokenKind, int]:
    if word := _WORD.match(text, position):
        return TokenKind.WORD, word.end()
    if number := _NUMBER.match(text, position):
        return TokenKind.NUMBER, number.end()
    opening = text[position]
    if opening in _CLOSING and opening not in unclosed:
        end = _end_of_quoted(text, position, _CLOSING[opening])
        if end:
            return (TokenKind.STRING if opening == "'" else TokenKind.QUOTED_NAME), end
        # Remembered, so that a million of them are not a million searches to the end.
        unclosed.add(opening)
    symbol = _SYMBOL.match(text, position)
    return TokenKind.SYMBOL, symbol.end() if symbol else position + 1


def _end_of_quoted(text: str, start: int, closing: str) -> int:
    """The end of the quoted text that opens at ``start``, or 0; a doubled quote is a part of it."""
    position = start + 1
    while (found := text.find(closing, position)) >= 0:
        if closing == "]" or text[found + 1 : found + 2] != closing:
            return found + 1
        position = found + 2
    return 0
