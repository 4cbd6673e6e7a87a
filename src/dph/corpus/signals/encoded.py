"""Data written as text: base64, bytes in hexadecimal, escaped Unicode."""

import re
import string

import numpy as np
import regex

_BASE64_LETTERS = np.zeros(256, np.bool_)
_BASE64_LETTERS[list((string.ascii_letters + string.digits + "+/\n=").encode())] = True
_BASE64_RUN = 64
_HEXADECIMAL = r"(?:\b(?:0x|\\x)?[0-9a-fA-F]{2}(?:,|\b\s*)){8,}"
_ASCII_HEXADECIMAL = re.compile(_HEXADECIMAL, re.ASCII)
_ANY_HEXADECIMAL = regex.compile(_HEXADECIMAL)
_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4}){8,}")
_HEX_WORD = regex.compile(r"\b0[xX][0-9a-fA-F]+\b")
_LONG = 1024
_SECONDS = 10.0


def holds_encoded_data(text: str) -> bool:
    """Whether a run of encoded data is longer than 1,024 characters, or all are over half.

    Raises:
        TimeoutError: the search takes too long.
    """
    if text.isascii():
        hexadecimal = _ASCII_HEXADECIMAL.findall(text)
    else:
        hexadecimal = _ANY_HEXADECIMAL.findall(text, timeout=_SECONDS)
    escaped = _ESCAPED.findall(text) if "\\u" in text else []
    runs = [*_base64_runs(text), *map(len, hexadecimal), *map(len, escaped)]
    return max(runs, default=0) > _LONG or sum(runs) > 0.5 * len(text)


def hexadecimal_characters(text: str) -> int:
    """Characters of numbers such as 0x1F, the 0x included."""
    if "0x" not in text and "0X" not in text:
        return 0
    return sum(len(word) for word in _HEX_WORD.findall(text, timeout=_SECONDS))


def _base64_runs(text: str) -> list[int]:
    """Lengths of runs of 64 or more letters of base64.

    Line ends are among the letters, so a long block without spaces is enough.
    """
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    others = np.flatnonzero(~_BASE64_LETTERS[data])
    lengths = np.diff(others, prepend=-1, append=len(data)) - 1
    return [int(length) for length in lengths[lengths >= _BASE64_RUN]]
