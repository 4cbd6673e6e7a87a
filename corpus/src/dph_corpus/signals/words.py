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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

# What a file can do to a signal: it has no value, and those after it in its group have none.


class SignalError(Exception):
    """A parser or lexer gave up on a file. Says why; no fault of the stage."""


# Repeated word n-grams, by integers: every n-gram gets a number, exactly, without hashing.
#
# An n-gram that occurs twice begins with an (n-1)-gram that does and is followed by another. So
# each length is worked out only at the places that the one before left.

_Integers = NDArray[np.int64]

TOP = (2, 3, 4)
"""Lengths of which the commonest n-gram is weighed."""
DUPLICATED = (5, 6, 7, 8, 9, 10)
"""Lengths of which all repeated n-grams are weighed."""


@dataclass(frozen=True, slots=True)
class NGramShares:
    """Shares of the characters of all words, by length of n-gram."""

    top: dict[int, float]
    """Characters of the commonest n-gram times its count; 0 if none occurs twice. Overlaps count
    more than once, so it may pass 1. Among equally common ones the first seen is taken."""
    duplicated: dict[int, float]
    """Characters of words that an n-gram covers which occurs twice or more, each counted once."""


def ngram_shares(words: Sequence[str]) -> NGramShares:
    """Weigh the repeated n-grams of ``words``.

    >>> shares = ngram_shares("a bb a bb c".split())
    >>> round(shares.top[2] * 7), shares.duplicated[5]
    (6, 0.0)
    """
    top, duplicated = dict.fromkeys(TOP, 0.0), dict.fromkeys(DUPLICATED, 0.0)
    if not words:
        return NGramShares(top, duplicated)
    numbers = {word: index for index, word in enumerate(dict.fromkeys(words))}
    ids = np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))
    lengths = np.fromiter(map(len, numbers), np.int64, len(numbers))[ids]
    total = int(lengths.sum())
    # ids[p] of the places p whose (n-1)-gram is repeated; all places for n = 2.
    places, names = np.arange(len(ids)), ids
    for n in range(2, DUPLICATED[-1] + 1):
        places, names, counts, first = _longer(places, names, ids, n)
        if not len(places):
            break
        if n in top:
            start = first[counts == counts.max()].min()
            top[n] = int(lengths[start : start + n].sum()) * int(counts.max()) / total
        else:
            duplicated[n] = int(lengths[_covered(places, n, len(ids))].sum()) / total
    return NGramShares(top, duplicated)


def _longer(
    places: _Integers, names: _Integers, ids: _Integers, n: int
) -> tuple[_Integers, _Integers, _Integers, _Integers]:
    """The repeated n-grams, from the repeated (n-1)-grams at ``places``.

    Returns:
        Where they begin; a number for each, equal where the n-grams are; and for each number how
        often it occurs and its first place.
    """
    fits = places + n <= len(ids)
    places, names = places[fits], names[fits]
    keys, places = _together(names * (int(ids.max()) + 1) + ids[places + n - 1], places, len(ids))
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
    counts = np.diff(starts, append=len(keys))
    repeated = counts > 1
    kept, counts, first = np.repeat(repeated, counts), counts[repeated], places[starts[repeated]]
    return places[kept], np.repeat(np.arange(len(counts)), counts), counts, first


def _together(keys: _Integers, places: _Integers, length: int) -> tuple[_Integers, _Integers]:
    """Keys, none of them negative, and their places below ``length``, in the order of both."""
    bits = length.bit_length()
    if int(keys.max(initial=0)) >> (63 - bits):
        order = np.lexsort((places, keys))
        return keys[order], places[order]
    # A plain sort of numbers that hold both takes a fraction of the time.
    packed = np.sort((keys << bits) | places)
    return packed >> bits, packed & ((1 << bits) - 1)


def _covered(places: _Integers, n: int, length: int) -> NDArray[np.bool_]:
    """Words in an n-gram that begins at one of ``places``."""
    steps = np.zeros(length + 1, np.int64)
    steps[places] += 1
    np.subtract.at(steps, places + n, 1)
    covered: NDArray[np.bool_] = np.cumsum(steps[:-1]) > 0
    return covered


_WORD = regex.compile(r"\w+|[^\w\s]+")
"""As nltk's ``wordpunct_tokenize`` has it: to ``regex``, unlike ``re``, a mark on a letter is part
of its word."""
_ASCII_WORD = re.compile(r"\w+|[^\w\s]+", re.ASCII)
_STRANGE_ASCII = re.compile(r"[\x08\x1b\x7f]")
"""ASCII that is neither space nor part of a word, and survives normalising."""

_REMOVED = [*range(0x08), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x202C]
_BLANKED = [0x2009, 0x200B]
_HALF_WIDTH = dict(zip("。、《》【】「」“”\u2018\u2019￥", ".,\"\"[]''\"\"''¥", strict=True)) | {
    chr(ord(mark) + 0xFEE0): mark for mark in string.punctuation
}


_NORMALISING: dict[int, str | None] = {
    **{ord(mark): " " for mark in string.punctuation},
    **{
        ord(wide): " " if half in string.punctuation else half for wide, half in _HALF_WIDTH.items()
    },
    **dict.fromkeys(_REMOVED),
    **dict.fromkeys(_BLANKED, " "),
}


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
    return raw_words(text, natural_language)


def raw_words(text: str, natural_language: str = "en") -> list[str]:
    """The words of ``text`` as they stand, runs of punctuation among them.

    >>> raw_words("a.b += 1")
    ['a', '.', 'b', '+=', '1']
    """
    if natural_language == "ja":
        raise SignalError("no words: there is no tokenizer for Japanese")
    if natural_language == "zh":
        cut = _chinese_cutter()
        return [word for line in text.split("\n") for word in cut.lcut(line) if word.strip()]
    if text.isascii():
        return _ASCII_WORD.findall(text)
    words: list[str] = _WORD.findall(text)
    return words


def simplified(text: str) -> str:
    """Chinese text in simplified characters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves the file of its table open
        import zhconv  # noqa: PLC0415 - only Chinese text needs it

        converted: str = zhconv.convert(text, "zh-cn")
    return converted


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
