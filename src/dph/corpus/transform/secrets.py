"""Keys, tokens and passwords, by the detectors of detect-secrets.

Its regular expressions know the forms that services give their tokens; its keyword detector takes
what is assigned to names such as ``password``. A value counts as one if it is no template, no
reference and more than a word of letters, so ``password = "password"`` stays.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

# A place in a text that a placeholder takes.


@dataclass(frozen=True, slots=True, order=True)
class PrivateSpan:
    """Characters ``start`` to ``end`` of a text, and what they are: email, ip, key, password."""

    start: int
    end: int
    kind: str


def replaced(text: str, findings: list[PrivateSpan]) -> str:
    """``text`` with ``<kind>`` for each finding; of two that overlap the first, longest one."""
    parts, last = [], 0
    for finding in sorted(findings, key=lambda found: (found.start, -found.end)):
        if finding.start >= last:
            parts += [text[last : finding.start], f"<{finding.kind}>"]
            last = finding.end
    return "".join([*parts, text[last:]])


_DETECTORS: Mapping[str, tuple[str, str]] = {
    # what a line has to hold for the detector to look at it: (module, class)
    r"A3T|A[BKGRIPNS][IRKOPNS][ACPSDT][A-Z]|aws": ("aws", "AWSKeyDetector"),
    r"AccountKey=": ("azure_storage_key", "AzureStorageKeyDetector"),
    r"gh[pousr]_": ("github_token", "GitHubTokenDetector"),
    r"glpat-|gldt-|glft-|glsoat-|glrt-": ("gitlab_token", "GitLabTokenDetector"),
    r"eyJ": ("jwt", "JwtTokenDetector"),
    r"-us\d": ("mailchimp", "MailchimpDetector"),
    r"_authToken": ("npm", "NpmDetector"),
    r"sk-": ("openai", "OpenAIDetector"),
    r"pypi-": ("pypi_token", "PypiTokenDetector"),
    r"SG\.": ("sendgrid", "SendGridDetector"),
    r"xox|hooks\.slack\.com": ("slack", "SlackDetector"),
    r"sq0csp-": ("square_oauth", "SquareOAuthDetector"),
    r"[rs]k_live": ("stripe", "StripeDetector"),
    r"\d{8,10}:[\w-]": ("telegram_token", "TelegramBotTokenDetector"),
    r"AC[a-z0-9]{32}|SK[a-z0-9]{32}": ("twilio", "TwilioKeyDetector"),
    r"[MNO][\w-]{23,}\.": ("discord", "DiscordBotTokenDetector"),
}
_ANY = re.compile("|".join(_DETECTORS))
_KEYWORD = re.compile(r"key|pass|pwd|secret|contrase", re.IGNORECASE)
_REST_OF_TOKEN = re.compile(r"[\w+/=-]*(?:\.[\w-]{6,})*")
_UNQUOTED = re.compile(r"[\s\"'`;,<>]")
_CREDENTIALS = re.compile(r"://[^\s/:@\"'<>{}$]+:(?P<password>[^\s/@\"'<>{}$]+)@")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?)-----"
    r"(?:(?!-----BEGIN).){1,20000}?-----END (?P=kind)-----",
    re.DOTALL,
)
_LONGEST_LINE = 4000
_SHORTEST = 6
_WORDS = re.compile(r"[A-Za-z]+(?:[ _./:-][A-Za-z]+)*[:.]?")
_STAND_IN = re.compile(
    r"<.*>|x{3,}|\*{3,}|\.{3,}|your|example|changeme|placeholder|dummy|redacted|insert|%[sd(]|\{",
    re.IGNORECASE,
)


def secrets(text: str) -> Iterator[PrivateSpan]:
    """Keys (private keys, tokens) and passwords (in URLs, and assigned as text)."""
    if "PRIVATE KEY" in text:
        for match in _PRIVATE_KEY.finditer(text):
            yield PrivateSpan(*match.span(), "key")
    start = 0
    for line in text.split("\n"):
        if len(line) <= _LONGEST_LINE:
            for begin, end, kind in _in_line(line):
                yield PrivateSpan(start + begin, start + end, kind)
        start += len(line) + 1


def _in_line(line: str) -> Iterator[tuple[int, int, str]]:
    if "://" in line:
        for match in _CREDENTIALS.finditer(line):
            if not _STAND_IN.search(match["password"]):
                yield *match.span("password"), "password"
    if _ANY.search(line):
        for detector in (d for pattern, d in _detectors().items() if re.search(pattern, line)):
            for value in detector.analyze_string(line):
                yield from _places(line, value, "key")
    if _KEYWORD.search(line) and ('"' in line or "'" in line):
        for value in _keyword_detector().analyze_string(line):
            if value and _is_password(value, line):
                yield from _places(line, value, "password")


def _places(line: str, value: str, kind: str) -> Iterator[tuple[int, int, str]]:
    value = _UNQUOTED.split(value, maxsplit=1)[0] if kind == "key" else value
    place = line.find(value) if value else -1
    while place >= 0:
        end = place + len(value)
        if kind == "key":  # a detector may know only the beginning of a token
            rest = _REST_OF_TOKEN.match(line, end)
            end = rest.end() if rest else end
        yield place, end, kind
        place = line.find(value, end)


def _is_password(value: str, line: str) -> bool:
    from detect_secrets.filters import heuristic  # noqa: PLC0415 - loads requests

    return not (
        len(value) < _SHORTEST
        or _WORDS.fullmatch(value)
        or _STAND_IN.search(value)
        or heuristic.is_templated_secret(value)
        or heuristic.is_prefixed_with_dollar_sign(value)
        or heuristic.is_sequential_string(value)
        or heuristic.is_not_alphanumeric_string(value)
        or heuristic.is_indirect_reference(line)
    )


@cache
def _detectors() -> Mapping[str, Any]:
    from importlib import import_module  # noqa: PLC0415

    return {
        pattern: getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
        for pattern, (module, name) in _DETECTORS.items()
    }


@cache
def _keyword_detector() -> Any:
    from detect_secrets.plugins.keyword import KeywordDetector  # noqa: PLC0415

    return KeywordDetector()


# E-mail addresses and public IP addresses.

_EMAIL = re.compile(
    r"(?<![\w.%+@-])[A-Za-z0-9](?:[\w.%+-]{0,62}[A-Za-z0-9_+])?"
    r"@(?P<domain>(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+(?P<last>[A-Za-z]{2,}))(?![\w@])"
)
_TOP_LEVEL = frozenset(
    [
        "com",
        "org",
        "net",
        "edu",
        "gov",
        "mil",
        "int",
        "info",
        "biz",
        "name",
        "io",
        "ai",
        "co",
        "dev",
        "app",
        "me",
        "tv",
        "us",
        "uk",
        "de",
        "fr",
        "it",
        "es",
        "pt",
        "nl",
        "be",
        "at",
        "ch",
        "se",
        "no",
        "fi",
        "dk",
        "pl",
        "cz",
        "sk",
        "hu",
        "ro",
        "bg",
        "gr",
        "ru",
        "ua",
        "by",
        "kz",
        "tr",
        "il",
        "ir",
        "in",
        "pk",
        "bd",
        "lk",
        "np",
        "cn",
        "jp",
        "kr",
        "tw",
        "hk",
        "sg",
        "my",
        "th",
        "vn",
        "id",
        "ph",
        "au",
        "nz",
        "ca",
        "mx",
        "br",
        "ar",
        "cl",
        "pe",
        "ve",
        "uy",
        "za",
        "ng",
        "ke",
        "eg",
        "ma",
        "eu",
        "ie",
        "is",
        "lt",
        "lv",
        "ee",
        "lu",
        "si",
        "hr",
        "ba",
        "mk",
        "al",
        "ge",
        "am",
        "az",
        "cc",
        "ws",
        "xyz",
        "tech",
        "online",
        "site",
        "cloud",
        "email",
        "museum",
        "aero",
        "coop",
    ]
)
"""Domains that people have addresses in. Those that are mostly file types or attributes (py, js,
md, rs, sh) are left out."""
_RESERVED = re.compile(
    r"(?:^|\.)(?:example|test|invalid|localhost|local)(?:\.(?:com|org|net))?$", re.I
)
"""RFC 2606: such addresses belong to nobody."""
_NOBODY = frozenset(("git", "noreply", "no-reply", "user", "username", "hg", "svn"))

_IPV4 = re.compile(r"(?<![\w./@-])(?<!\w:)\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\d)")
_IPV4_IN_URL = re.compile(
    r"(?:(?<=//)|(?<=@))\d{1,3}(?:\.\d{1,3}){3}(?=[:/\s\"'<>)]|$)", re.MULTILINE
)
_IPV6 = re.compile(r"(?<![\w:.])[23][0-9a-fA-F]{3}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")
_VERSION = re.compile(r"(?:version|release|\bver|\bv|[=~<>!]=|\bOID)[\W_]{0,8}$", re.IGNORECASE)
_RESOLVERS = frozenset(
    ("8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "208.67.222.222", "208.67.220.220")
)
"""Public name servers, which everybody's configuration names."""


def email_addresses(text: str) -> Iterator[PrivateSpan]:
    """Addresses of people: not those of reserved domains, nor of ``git@`` and the like."""
    if "@" not in text:
        return
    for match in _EMAIL.finditer(text):
        local = match[0].partition("@")[0].lower()
        known = match["last"].lower() in _TOP_LEVEL
        if known and local not in _NOBODY and not _RESERVED.search(match["domain"]):
            yield PrivateSpan(*match.span(), "email")


def public_addresses(text: str) -> Iterator[PrivateSpan]:
    """IP addresses that are routed on the internet; no versions, no well-known name servers."""
    for pattern in (_IPV4, _IPV4_IN_URL, _IPV6):
        for match in pattern.finditer(text):
            before = text[max(0, match.start() - 16) : match.start()]
            if _is_public(match[0]) and not _VERSION.search(before):
                yield PrivateSpan(*match.span(), "ip")


def _is_public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast and text not in _RESOLVERS
