"""Words of a text: as they stand, and normalised the way the n-gram and length rules count them.

Normalising removes or blanks some control characters, maps full-width punctuation to ASCII, puts a
space in the place of ASCII punctuation (the underscore too), lower-cases and then applies NFKC. So
a character that NFKC turns into punctuation stays a word. What is left splits into runs of word
characters and runs of anything else but space.
"""

import logging
import re
import string
import tempfile
import unicodedata
import warnings
from functools import cache
from typing import Any

import regex

from dph.corpus.signals.failure import SignalError

_WORD = regex.compile(r"\w+|[^\w\s]+")
"""As nltk's ``wordpunct_tokenize`` has it: to ``regex``, unlike ``re``, a mark on a letter is part
of its word."""
_ASCII_WORD = re.compile(r"\w+|[^\w\s]+", re.ASCII)
_STRANGE_ASCII = re.compile(r"[\x08\x1b\x7f]")
"""ASCII that is neither space nor part of a word, and survives normalising."""

_REMOVED = [*range(0x08), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x202C]
_BLANKED = [0x2009, 0x200B]
_HALF_WIDTH = {
    "。": ".",
    "、": ",",
    "《": '"',
    "》": '"',
    "【": "[",
    "】": "]",
    "「": "'",
    "」": "'",
    "“": '"',
    "”": '"',
    "\u2018": "'",
    "\u2019": "'",
    "￥": "¥",
} | {chr(ord(mark) + 0xFEE0): mark for mark in string.punctuation}


def _normalising_table() -> dict[int, str | None]:
    table: dict[int, str | None] = {ord(mark): " " for mark in string.punctuation}
    for wide, half in _HALF_WIDTH.items():
        table[ord(wide)] = " " if half in string.punctuation else half
    table.update(dict.fromkeys(_REMOVED))
    table.update(dict.fromkeys(_BLANKED, " "))
    return table


_NORMALISING = _normalising_table()


def normalised_words(text: str, natural_language: str = "en") -> list[str]:
    """The words of ``text`` after normalising.

    Lines may be joined first: neither lower-casing nor NFKC looks across a line's end.

    >>> normalised_words("Get_URL(“x”, 2²)")
    ['get', 'url', 'x', '22']
    """
    if natural_language == "ja":
        raise SignalError("no words: there is no tokenizer for Japanese")
    text = text.translate(_NORMALISING).lower()
    if text.isascii():
        if natural_language != "zh" and not _STRANGE_ASCII.search(text):
            return text.split()
    else:
        text = unicodedata.normalize("NFKC", text)
    return _tokens(text, natural_language)


def raw_words(text: str, natural_language: str = "en") -> list[str]:
    """The words of ``text`` as they stand, runs of punctuation among them.

    >>> raw_words("a.b += 1")
    ['a', '.', 'b', '+=', '1']
    """
    if natural_language == "ja":
        raise SignalError("no words: there is no tokenizer for Japanese")
    return _tokens(text, natural_language)


def count_words(text: str, natural_language: str = "en") -> int:
    """How many raw words ``text`` has."""
    return len(raw_words(text, natural_language))


def simplified(text: str) -> str:
    """Chinese text in simplified characters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves the file of its table open
        import zhconv  # noqa: PLC0415 - only Chinese text needs it

        converted: str = zhconv.convert(text, "zh-cn")
    return converted


def _tokens(text: str, natural_language: str) -> list[str]:
    if natural_language == "zh":
        cut = _chinese_cutter()
        return [word for line in text.split("\n") for word in cut.lcut(line) if word.strip()]
    if text.isascii():
        return _ASCII_WORD.findall(text)
    words: list[str] = _WORD.findall(text)
    return words


@cache
def _chinese_cutter() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba  # noqa: PLC0415 - its dictionary takes a second, and only Chinese text needs it

    jieba.setLogLevel(logging.WARNING)
    cutter = jieba.Tokenizer()
    # It would read a cache from the machine's temporary directory, where anyone may have put it.
    cutter.tmp_dir = tempfile.mkdtemp(prefix="dph-words-")
    return cutter
