"""What lies in quotes, found by pairing quote marks: blind to escapes and apostrophes.

Three single quotes go before three double ones, those before one of either; the shortest match
wins.
"""

import re

from dph.corpus.signals.words import count_words

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
    """What stands in quotes; those of one mark end on their line."""
    return _quoted(_IN_LINES, code)


def long_strings(code: str, natural_language: str) -> int:
    """Pieces of strings between line ends that have over 20 words, punctuation counted."""
    count = 0
    for string in _quoted(_ACROSS_LINES, code):
        if len(string) > _LONG_STRING:
            for piece in string.split("\n"):
                count += (
                    len(piece) > _LONG_STRING
                    and count_words(piece, natural_language) > _LONG_STRING
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
