"""Data written as text: base64, bytes in hexadecimal, escaped Unicode."""

import regex

_BASE64 = regex.compile(r"(?<![a-zA-Z0-9+/\n=])[a-zA-Z0-9+/\n=]{64,}")
"""Runs of its letters, line ends among them: a long block without spaces is enough."""
_HEXADECIMAL = regex.compile(r"(?:\b(?:0x|\\x)?[0-9a-fA-F]{2}(?:,|\b\s*)){8,}")
_ESCAPED = regex.compile(r"(?:\\u[0-9a-fA-F]{4}){8,}")
_HEX_WORD = regex.compile(r"\b0[xX][0-9a-fA-F]+\b")
_LONG = 1024
_SECONDS = 10.0


def holds_encoded_data(text: str) -> bool:
    """Whether a run of encoded data is longer than 1,024 characters, or all are over half.

    Raises:
        TimeoutError: the search takes too long.
    """
    runs = [
        len(run)
        for pattern in (_BASE64, _HEXADECIMAL, _ESCAPED)
        if pattern is not _ESCAPED or "\\u" in text
        for run in pattern.findall(text, timeout=_SECONDS)
    ]
    return max(runs, default=0) > _LONG or sum(runs) > 0.5 * len(text)


def hexadecimal_characters(text: str) -> int:
    """Characters of numbers such as 0x1F, the 0x included."""
    if "0x" not in text and "0X" not in text:
        return 0
    return sum(len(word) for word in _HEX_WORD.findall(text, timeout=_SECONDS))
