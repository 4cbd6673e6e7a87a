"""Passwords, and other secrets that stand next to their names.

The keyword detector of detect-secrets takes what is assigned in quotes to names such as
``password``. Rows of a table know the places without quotes: settings files, connection strings,
parameters of URLs, options of commands. A value counts as a secret if it is no template, no
reference, no code and more than a word of letters, so ``password = "password"`` stays.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from dph_corpus.transform.spans import PrivateSpan
from dph_corpus.transform.tokens import STAND_IN, tokens

_KEYWORD = re.compile(r"key|pass|pwd|secret|contrase", re.IGNORECASE)
_CREDENTIALS = re.compile(r"://[^\s/:@\"'<>{}$]*:(?P<value>[^\s/@\"'<>{}$][^\s/@\"'<>{}]*)@")
_LONGEST_LINE = 4000
_SHORTEST = 6
_WORDS = re.compile(r"[A-Za-z]+(?:[ _./:-][A-Za-z]+)*[:.]?")

# Secrets without quotes.

_PASSWORD = (
    r"(?P<password>password|passwd|passphrase|passwort|contrase(?:ñ|n)a|senha|pwd|(?<![a-z])pass)"
)
_NAME = (
    rf"[\w.-]*?(?:{_PASSWORD}|token|credentials?|secret(?:[_.-]?key)?(?:[_.-]?base)?"
    r"|(?:api|access|private|auth|account|signing|encryption|master|app|shared)[_.-]?key)"
)
_VALUE = r"(?P<value>[^\s\"'`=<>|;,][^\s\"'`<>]*+)"
_SHELLS = ("shell", "bash", "fish", "tcsh", "shellsession", "dockerfile", "dotenv", "batchfile")
_SETTINGS = (
    *("yaml", "miniyaml", "oasv2-yaml", "oasv3-yaml", "ini", "java properties", "properties"),
    *("toml", "git config", "npm config", "curl config", "wget config", "ssh config", "http"),
    *("apacheconf", "nginx", "desktop", "makefile", *_SHELLS),
)
_PROSE = ("markdown", "text", "restructuredtext", "asciidoc", "xml", "")
PLACES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "a line of settings": (
        rf"(?:^\s*(?:[#;-]+\s*)?(?:(?:export|set|env|arg)\s+)?|[{{,]\s*)[\"']?{_NAME}[\"']?\s*"
        rf"(?::?=>?|[?+]=|:(?=\s))\s*[\"']?{_VALUE}[\"']?(?:\s*(?:$|\#|[,}}]|//|\\)|(?<=[,;}}])\s)",
        _SETTINGS,
    ),
    "a variable": (rf"(?<![\w$.{{\"'-]){_NAME}={_VALUE}", _SHELLS),
    "a variable in prose": (
        rf"(?<![\w$.{{-])(?-i:(?:[A-Z0-9]+_)*(?:(?P<password>PASSWORD|PASSWD|PASS|PWD)"
        rf"|SECRET|TOKEN|(?:API|ACCESS|SECRET|PRIVATE)_KEY))={_VALUE}",
        (*_PROSE, *_SETTINGS),
    ),
    "an instruction": (rf"^\s*ENV\s+{_NAME}\s+{_VALUE}\s*$", ("dockerfile",)),
    "an element": (
        rf"(?:<|(?:key|name)=\"){_NAME}(?:>|\"\s+value=\")(?P<value>[^<>\s\"]+)(?:</|\")",
        ("xml", "html", "maven pom", "xml property list"),
    ),
    "a connection string": (
        r"(?<![\w$.-])(?P<password>password|pwd|passwd)\s?=\s?(?P<value>[^\s;\"'`<>{}$%&()][^\s;\"'`<>]*)",
        (),
    ),
    "a parameter": (
        r"(?:://|jdbc:)[^\s\"'<>]*?[?&;](?:(?P<password>password|pwd|passwd|pass)"
        r"|[\w-]*(?:token|api_?key|secret)|sig)=(?P<value>[^&;\s\"'<>)\]}]+)",
        (),
    ),
    "an option": (
        rf"(?:^|[\s\"'\[,])--?{_NAME}(?:=|\s+)(?P<value>[^\s\"'`=<>|&;,-][^\s\"'`<>]*)",
        (),
    ),
    "a command": (
        r"(?:\bcurl\b.*?\s(?:-u|--user)[ =]?[\"']?[^\s:\"'$]+:|\bsshpass\s+-p\s*"
        r"|\bmysql\w*\b[^|;]*?\s-p|\b(?:docker|podman|helm\s+registry)\s+login\b.*?\s-p\s+"
        r"|\bredis-cli\b.*?\s-a\s+|\blogin\s+\S+\s+password\s+)"
        r"(?P<password>)(?P<value>[^\s\"'`<>$|;&-][^\s\"'`<>]*)",
        (),
    ),
    "a header": (
        r"(?:authorization[\"']?\s*[:=,]\s*[\"']?(?:bearer|basic|token)\s+"
        r"|x-(?:[\w-]*-)?(?:api-?key|token)[\"']?\s*:\s*[\"']?)(?P<value>[\w.~+/=-]{16,})",
        (),
    ),
}
"""Places of secrets without quotes: a pattern, and languages (any, if there are none).

The group ``value`` is the secret. Without a group ``password`` it must look drawn by chance."""
_NAMED = re.compile(
    r"key|pass|pwd|secret|contrase|senha|token|credential|authorization"
    r"|sig=|curl |login |mysql|redis-cli"
)
_DATABASE = re.compile(
    r"\b(?:server|data source|host(?:addr|name)?|addr(?:ess)?|initial catalog|database|dbname|dsn"
    r"|user(?: ?id|name)?|uid|driver|provider|endpoint|port|account(?:name)?)\s?=\s?[^\s;=]",
    re.IGNORECASE,
)
_PAIR_OF_LINES = re.compile(
    rf"\bname:[ \t]*[\"']?(?i:{_NAME})[\"']?[ \t]*\r?\n[ \t]*value:[ \t]*[\"']?{_VALUE}"
)
"""A variable of a container in Kubernetes."""
_REFERENCE = re.compile(
    r"""[$<{\[(]|[&*][a-z_]\w*$|@[\w.-]+@$|(?:~|\.{0,2})/(?:[\w.-]+/|\w+$)|%[({A-Za-z]|![A-Za-z/]*$
    |[a-z]:\\|[A-Za-z_][\w.:]*[(\[]  # a call, a type with its length
    |(?-i:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)$  # a name of a variable
    |(?:process|os|env|vars?|local|self|this|config|settings|secrets|data|module|params?|values?)[.:]
    |(?:vault|arn|ssm|file|ref|kms|op|awssecret|secretmanager|projects|enc)[:/\[(]
    |.*(?:://|\$\{|\$\(|\{\{|\#\{|<%)
    |(?:u?int|sha|md|utf-?|base|oauth|argon|varchar|scram-sha-|hs|rs|es|aes-?)\d+\w*(?:-\w+)?$""",
    re.IGNORECASE | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\[nrt\"'0]")
_NAME_LIKE = re.compile(
    r"(?:[A-Za-z]+\d{0,3}|v?\d{1,4}[a-z]?)(?:[-_./:@+](?:[A-Za-z]*\d{0,4}[a-z]?))*"
)
"""Names of models, images, hosts and releases: ``registry-2``, ``gpt-4o``."""


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
            if value and _is_password(value, line):
                for match in re.finditer(re.escape(value), line):
                    yield match.span()
    for name, pattern in _places(language):
        for match in pattern.finditer(line):
            connects = name != "a connection string" or _connects(line, match, language)
            if connects and (span := _secret_span(match)):
                yield span


@cache
def _places(language: str) -> list[tuple[str, re.Pattern[str]]]:
    return [
        (name, re.compile(pattern, re.IGNORECASE))
        for name, (pattern, languages) in PLACES.items()
        if not languages or language in languages
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


def _is_password(value: str, line: str = "") -> bool:
    from detect_secrets.filters import heuristic  # noqa: PLC0415 - loads requests

    return not (
        len(value) < _SHORTEST
        or _WORDS.fullmatch(value)
        or STAND_IN.search(value)
        or heuristic.is_templated_secret(value)
        or heuristic.is_prefixed_with_dollar_sign(value)
        or heuristic.is_sequential_string(value)
        or heuristic.is_not_alphanumeric_string(value)
        or heuristic.is_indirect_reference(line)
    )


@cache
def _keyword_detector() -> Any:
    from detect_secrets.plugins.keyword import KeywordDetector  # noqa: PLC0415

    return KeywordDetector()
