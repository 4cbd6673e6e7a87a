"""Signals that text files and code have in common: sizes, words, n-grams, kinds of characters."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import regex
from numpy.typing import NDArray

from dph_corpus.signals import split as quoted
from dph_corpus.signals.python import prose_length
from dph_corpus.signals.view import FileView
from dph_corpus.signals.words import DUPLICATED, TOP

# What a signal is: a number about a file, or none.

Measure = Callable[[FileView], float | None]

_DECIMALS = 8


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal's name and the function that measures it.

    Values are rounded to 8 decimals before a threshold is applied, unless ``exact``.
    """

    name: str
    measure: Measure
    exact: bool = False

    def __call__(self, view: FileView) -> float | None:
        """The value, or None where the file has none."""
        value = self.measure(view)
        if value is None:
            return None
        return float(value) if self.exact else round(float(value), _DECIMALS)


def share(count: float, total: float) -> float | None:
    """``count / total``, or None of nothing."""
    return count / total if total else None


def named(prefix: str, *rows: tuple[str, Measure]) -> tuple[Signal, ...]:
    """Signals whose names begin with ``prefix``."""
    return tuple(Signal(f"{prefix}{name}", measure) for name, measure in rows)


def num_lines(view: FileView) -> float:
    """Lines, blank ones among them."""
    return len(view.lines)


SIZES: Sequence[tuple[str, Measure]] = (
    ("num_words", lambda view: len(view.words)),
    ("num_chars", lambda view: view.length),
    ("mean_word_length", lambda view: share(sum(map(len, view.words)), len(view.words))),
    ("frac_words_unique", lambda view: share(len(set(view.words)), len(view.words))),
)
"""Normalised words, characters, characters of a word, and distinct words over all."""


def frac_chars_replacement_symbols(view: FileView) -> float | None:
    """U+FFFD over all characters."""
    return share(view.characters.replacements, view.characters.total)


def frac_chars_alphabet(view: FileView) -> float:
    """Letters of any script over non-space characters."""
    return share(view.characters.alphabetic, view.characters.visible) or 0.0


def frac_chars_digital(view: FileView) -> float:
    """Digits over non-space characters; 1 if there are none of these."""
    counts = view.characters
    return counts.digits / counts.visible if counts.visible else 1.0


def frac_chars_whitespace(view: FileView) -> float:
    """Space over all characters; 1 for an empty file."""
    counts = view.characters
    return counts.spaces / counts.total if counts.total else 1.0


def _top(length: int) -> Measure:
    return lambda view: view.ngrams.top[length]


def _duplicated(length: int) -> Measure:
    return lambda view: view.ngrams.duplicated[length]


NGRAMS: Sequence[tuple[str, Measure]] = (
    *((f"frac_chars_top_{n}grams", _top(n)) for n in TOP),
    *((f"frac_chars_dupe_{n}grams", _duplicated(n)) for n in DUPLICATED),
)
"""Shares of repeated n-grams, by name."""


# The signals of code and data in any language, in the order of the released filter.

# Data written as text: base64, bytes in hexadecimal, escaped Unicode.


def _bytes_of(letters: str) -> NDArray[np.bool_]:
    """A table of bytes that is true for ASCII ``letters``."""
    table = np.zeros(256, np.bool_)
    table[list(letters.encode())] = True
    return table


_BASE64_LETTERS = _bytes_of(string.ascii_letters + string.digits + "+/\n=")
_HEXADECIMAL_DIGITS = _bytes_of(string.hexdigits)
_WORD_CHARACTERS = _bytes_of(string.ascii_letters + string.digits + "_")
_MAY_BE_SPACE = _bytes_of(string.whitespace + "\x1c\x1d\x1e\x1f")
_MAY_BE_SPACE[128:] = True
_BASE64_RUN = 64
_FEWEST_PAIRS = 8
_HEXADECIMAL = rf"(?:\b(?:0x|\\x)?[0-9a-fA-F]{{2}}(?:,|\b\s*)){{{_FEWEST_PAIRS},}}"
_ASCII_HEXADECIMAL = re.compile(_HEXADECIMAL, re.ASCII)
_ANY_HEXADECIMAL = regex.compile(_HEXADECIMAL)
_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4}){8,}")
_HEX_WORD = regex.compile(r"\b0[xX][0-9a-fA-F]+\b")
_LONG = 1024
_SECONDS = 10.0


def holds_encoded_data(text: str) -> bool:
    """Whether a run of encoded data is longer than 1,024 characters, or all are over half."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    if not _may_hold_hexadecimal(data):
        hexadecimal = []
    elif text.isascii():
        hexadecimal = _ASCII_HEXADECIMAL.findall(text)
    else:
        hexadecimal = _ANY_HEXADECIMAL.findall(text, timeout=_SECONDS)
    escaped = _ESCAPED.findall(text) if "\\u" in text else []
    runs = [*_base64_runs(data), *map(len, hexadecimal), *map(len, escaped)]
    return max(runs, default=0) > _LONG or sum(runs) > 0.5 * len(text)


def hexadecimal_characters(text: str) -> int:
    """Characters of numbers such as 0x1F, the 0x included."""
    if "0x" not in text and "0X" not in text:
        return 0
    return sum(len(word) for word in _HEX_WORD.findall(text, timeout=_SECONDS))


def _may_hold_hexadecimal(data: NDArray[np.uint8]) -> bool:
    """Whether UTF-8 ``data`` has enough pairs of hexadecimal digits that a run could go on after.

    Such a pair is a word or follows an x, and stands before a space, a backslash, or a comma and a
    digit. Beyond ASCII every character may be a space. The last pair of a run may stand anywhere.
    """
    data = np.pad(data, (1, 3), constant_values=ord(" "))
    digit, word = _HEXADECIMAL_DIGITS[data], _WORD_CHARACTERS[data]
    pairs = np.flatnonzero(digit[1:-3] & digit[2:-2] & ~word[3:-1]) + 1
    begins = ~word[pairs - 1] | (data[pairs - 1] == ord("x"))
    after = data[pairs + 2]
    goes_on = _MAY_BE_SPACE[after] | (after == ord("\\"))
    goes_on |= (after == ord(",")) & digit[pairs + 3]
    return int(np.count_nonzero(begins & goes_on)) >= _FEWEST_PAIRS - 1


def _base64_runs(data: NDArray[np.uint8]) -> list[int]:
    """Lengths of runs of 64 or more letters of base64.

    Line ends are among the letters, so a long block without spaces is enough.
    """
    others = np.flatnonzero(~_BASE64_LETTERS[data])
    lengths = np.diff(others, prepend=-1, append=len(data)) - 1
    return [int(length) for length in lengths[lengths >= _BASE64_RUN]]


_XML_HEAD, _HEAD = 100, 200
_GENERATED = ("generate", "autogen", "do not edit")
"""With them the longer phrases ("automatically generated") are found, too."""
_REMINDERS = ("your code here", "fixme", "todo")


def frac_chars_comments(view: FileView) -> float | None:
    """Comments over all characters; in Python doc strings and comments without their marks."""
    if not view.text:
        return None
    if view.language != "python":
        return len(view.split.comments) / len(view.text)
    split = None if view.tree is None else view.split
    pieces = split.pieces if split and split.scanned else None
    return prose_length(view.text, view.python, pieces) / len(view.text)


def frac_lines_dupe_lines(view: FileView) -> float | None:
    """Lines of code that have a copy, space aside; "}," and single characters do not count."""
    counts = Counter("".join(line.split()) for line in view.code_lines)
    copies = sum(n for line, n in counts.items() if n > 1 and len(line) != 1 and line != "},")
    return share(copies, len(view.code_lines)) if view.lines else None


def cate_autogen(view: FileView) -> float:
    """1 if the first 200 characters hold "generate", "autogen" or "do not edit"."""
    head = view.text[:_HEAD].lower()
    return float(any(word in head for word in _GENERATED))


def frac_lines_long_string(view: FileView) -> float | None:
    """Lines of strings with over 20 words, over lines of code; may pass 1."""
    count = quoted.long_strings(view.split.code, view.natural_language) if view.code_lines else 0
    return share(count, len(view.code_lines))


def frac_chars_hex_words(view: FileView) -> float | None:
    """Characters of hexadecimal numbers over those of the code."""
    code = view.split.code
    return share(hexadecimal_characters(code), len(code))


def frac_lines_prompt_comments(view: FileView) -> float | None:
    """Lines of comments with a reminder ("todo") over all lines.

    Comments are put together as they come, so Python's "#" lines in a row are one.
    """
    lines = [line.lower() for line in view.comment_lines]
    count = sum(any(word in line for word in _REMINDERS) for line in lines)
    return share(count, len(view.lines))


def frac_lines_assert(view: FileView) -> float | None:
    """Lines of code that hold "assert", inside words too."""
    count = sum("assert" in line.lower() for line in view.code_lines)
    return share(count, len(view.code_lines))


CODE_SIGNALS = named(
    "qsc_code_",
    *SIZES,
    *NGRAMS,
    ("frac_chars_replacement_symbols", frac_chars_replacement_symbols),
    ("frac_chars_digital", frac_chars_digital),
    ("frac_chars_whitespace", frac_chars_whitespace),
    ("size_file_byte", lambda view: view.bytes),
    ("num_lines", num_lines),
    ("num_chars_line_max", lambda view: max(map(len, view.lines), default=0)),
    ("num_chars_line_mean", lambda v: len(v.text) / len(v.lines) if v.lines else 0.0),
    ("frac_chars_alphabet", frac_chars_alphabet),
    ("frac_chars_comments", frac_chars_comments),
    ("cate_xml_start", lambda view: float("<?xml version=" in view.text[:_XML_HEAD])),
    ("frac_lines_dupe_lines", frac_lines_dupe_lines),
    ("cate_autogen", cate_autogen),
    ("frac_lines_long_string", frac_lines_long_string),
    (
        "frac_chars_string_length",
        lambda view: share(sum(map(len, view.strings)), len(view.split.code)),
    ),
    (
        "frac_chars_long_word_length",
        lambda view: share(quoted.long_word_characters(view.strings), len(view.split.code)),
    ),
    (
        "frac_lines_string_concat",
        lambda view: share(sum(map(quoted.joins_strings, view.code_lines)), len(view.code_lines)),
    ),
    ("cate_encoded_data", lambda view: float(holds_encoded_data(view.text))),
    ("frac_chars_hex_words", frac_chars_hex_words),
    ("frac_lines_prompt_comments", frac_lines_prompt_comments),
    ("frac_lines_assert", frac_lines_assert),
)
