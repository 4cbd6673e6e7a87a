"""Passwords, and other secrets that stand next to their names.

The keyword detector of detect-secrets takes what is assigned in quotes to names such as
``password``. Rows of a table know the places without quotes: settings files, connection strings,
parameters of URLs, options of commands. A value counts as a secret if it is no template, no
reference, no code and more than a word of letters, so ``password = "password"`` stays.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dph_corpus.packaged import packaged
from dph_corpus.transform.spans import PrivateSpan
from dph_corpus.transform.tokens import STAND_IN, tokens

_KEYWORD = re.compile(r"key|pass|pwd|secret|contrase", re.IGNORECASE)
_CREDENTIALS = re.compile(r"://[^\s/:@\"'<>{}$]*:(?P<value>[^\s/@\"'<>{}$][^\s/@\"'<>{}]*)@")
_LONGEST_LINE = 4000
_SHORTEST = 6
_WORDS = re.compile(r"[A-Za-z]+(?:[ _./:-][A-Za-z]+)*[:.]?")


@dataclass(frozen=True, slots=True)
class SecretTable:
    """``secrets.toml``: places of secrets without quotes, and groups of languages."""

    name: str
    value: str
    named: str
    database: str
    reference: str
    name_like: str
    languages: Mapping[str, Sequence[str]]
    places: Mapping[str, tuple[str, Sequence[str]]]


_TABLE = packaged("transform/secrets.toml", SecretTable)
_SETTINGS, _PROSE = (_TABLE.languages[name] for name in ("settings", "prose"))
_NAMED, _NAME_LIKE = re.compile(_TABLE.named), re.compile(_TABLE.name_like)
_DATABASE = re.compile(_TABLE.database, re.IGNORECASE)
_REFERENCE = re.compile(_TABLE.reference, re.IGNORECASE | re.VERBOSE)
_PAIR_OF_LINES = re.compile(
    rf"\bname:[ \t]*[\"']?(?i:{_TABLE.name})[\"']?[ \t]*\r?\n[ \t]*value:[ \t]*[\"']?{_TABLE.value}"
)
"""A variable of a container in Kubernetes."""
_ESCAPE = re.compile(r"\\[nrt\"'0]")


def secrets(text: str, language: str) -> Iterator[PrivateSpan]:
    """Keys (private keys, tokens) and passwords (in URLs, assigned, and in settings)."""
    yield from tokens(text)
    for match in _CREDENTIALS.finditer(text):
        if not STAND_IN.search(match["value"]):
            yield PrivateSpan(*match.span("value"), "password")
    lower = text.replace("\u0130", "I").lower()  # the one letter whose lower case is longer
    start = 0
    while named := _NAMED.search(lower, start):
        first = text.rfind("\n", 0, named.start()) + 1
        last = text.find("\n", named.start())
        start = last + 1 if last >= 0 else len(text)
        line = text[first : start - (last >= 0)]
        if len(line) <= _LONGEST_LINE:
            for begin, end in _in_line(line, language):
                yield PrivateSpan(first + begin, first + end, "password")
    if language in _SETTINGS and "value:" in text:
        for match in _PAIR_OF_LINES.finditer(text):
            if span := _secret_span(match):
                yield PrivateSpan(*span, "password")


def _in_line(line: str, language: str) -> Iterator[tuple[int, int]]:
    if ('"' in line or "'" in line) and _KEYWORD.search(line):
        for value in _keyword_detector().analyze_string(line):
            if value and _is_password(value):
                for match in re.finditer(re.escape(value), line):
                    yield match.span()
    for name, pattern in _places(language):
        for match in pattern.finditer(line):
            connects = name != "a connection string" or _connects(line, match, language)
            if connects and (span := _secret_span(match)):
                yield span


@cache
def _places(language: str) -> list[tuple[str, re.Pattern[str]]]:
    parts = {"{name}": _TABLE.name, "{value}": _TABLE.value}
    return [
        (place, re.compile(re.sub("{name}|{value}", lambda found: parts[found[0]], text), re.I))
        for place, (text, groups) in _TABLE.places.items()
        if not groups or any(language in _TABLE.languages.get(g, (g,)) for g in groups)
    ]


def _connects(line: str, match: re.Match[str], language: str) -> bool:
    """Whether a database is named next to the password; in code, both must be inside quotes."""
    before, after = line[: match.start()], line[match.end() :]
    quoted = any(before.count(quote) % 2 and quote in after for quote in "\"'`")
    free = language in _SETTINGS or language in _PROSE
    return (quoted or free) and _DATABASE.search(f"{before}\n{after}") is not None


def _secret_span(match: re.Match[str]) -> tuple[int, int] | None:
    start = match.start("value")
    value = _ESCAPE.split(match["value"], maxsplit=1)[0].rstrip(",;)}]\\")
    by_chance = match.groupdict().get("password") is not None or (
        len(value) >= _SHORTEST + 2
        and any(map(str.isdigit, value))
        and not _NAME_LIKE.fullmatch(value)
    )
    if not by_chance or _REFERENCE.match(match["value"]) or not _is_password(value):
        return None
    return start, start + len(value)


def _is_password(value: str) -> bool:
    from detect_secrets.filters import heuristic  # noqa: PLC0415 - loads requests

    return not (
        len(value) < _SHORTEST
        or _WORDS.fullmatch(value)
        or STAND_IN.search(value)
        or heuristic.is_templated_secret(value)
        or heuristic.is_prefixed_with_dollar_sign(value)
        or heuristic.is_sequential_string(value)
        or heuristic.is_not_alphanumeric_string(value)
    )


@cache
def _keyword_detector() -> Any:
    from detect_secrets.plugins.keyword import KeywordDetector  # noqa: PLC0415

    return KeywordDetector()
