"""Tokens of services, by the forms that their vendors publish, and private keys.

A form is a beginning, an alphabet and a length. Lengths are lower bounds where vendors have changed
them, and whatever looks like a word or a stand-in (``hf_xxxxxxxx``) is no token.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from dph_corpus.packaged import packaged
from dph_corpus.transform.spans import PrivateSpan


class TokenForm(NamedTuple):
    """Texts one of which every token of a vendor has, and its pattern; a group is the secret."""

    hints: str
    pattern: str


TOKENS = packaged("transform/tokens.toml", dict[str, TokenForm])
"""By vendor."""
STAND_IN = re.compile(
    r"<.*>|x{3,}|\*{3,}|\.{3,}|your|example|changeme|placeholder|dummy|redacted|insert|%[sd(]|\{",
    re.IGNORECASE,
)
_NO_TOKEN = re.compile(r"(?i:x{5,}|your|example|placeholder|dummy|redacted|insert)|([0*])\1{7}")
_LONG = re.compile(r"[\w./+=~:@%-]{20,}", re.ASCII)
"""Only there can a token be, and few words are that long."""
_PRIVATE_KEY = re.compile(
    r"-{4,5} ?BEGIN (?P<kind>[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?) ?-{4,5}(?P<body>"
    r"(?:(?:Proc-Type|DEK-Info|Version|Comment|Charset): [^\n\"\\]*|[A-Za-z0-9\s+/=\"'`\\,.#*>&])"
    r"{40,20000}+)-{4,5} ?END (?P=kind) ?-{4,5}",
    re.ASCII,
)
_BASE64 = re.compile(r"(?:\\?[A-Za-z0-9+/]){40}")
"""A line of a key; code between two constants for its ends has none."""


def tokens(text: str) -> Iterator[PrivateSpan]:
    """Tokens of the services of the table, and blocks of private keys."""
    if "PRIVATE KEY" in text:
        for match in _PRIVATE_KEY.finditer(text):
            if _BASE64.search(match["body"]):
                yield PrivateSpan(*match.span(), "key")
    long = " ".join(_LONG.findall(text))
    for hints, pattern in _by_hints():
        if any(hint in long for hint in hints):
            for match in pattern.finditer(text):
                start, end = match.span(match.lastindex or 0)
                if _stands_alone(text, match.start()) and _is_token(text[start:end]):
                    yield PrivateSpan(start, end, "key")


@cache
def _by_hints() -> list[tuple[list[str], re.Pattern[str]]]:
    return [(hints.split(), re.compile(pattern, re.ASCII)) for hints, pattern in TOKENS.values()]


def _stands_alone(text: str, start: int) -> bool:
    r"""Whether no word runs into the token: a ``\n`` in a string is no word."""
    before = text[max(0, start - 2) : start]
    return not before[-1:].isalnum() or before[:1] == "\\"


def _is_token(value: str) -> bool:
    """Whether ``value`` looks random: it mixes digits and letters, or letters of both cases."""
    if value.startswith("eyJ"):
        from detect_secrets.plugins import jwt  # noqa: PLC0415 - loads requests

        return bool(jwt.JwtTokenDetector.is_formally_valid(".".join(value.split(".")[:2])))
    tail = value[-20:]  # the beginning is the vendor's
    kinds = sum(any(map(kind, tail)) for kind in (str.isdigit, str.islower, str.isupper))
    return kinds > 1 and len(set(value)) >= 8 and not _NO_TOKEN.search(value)
