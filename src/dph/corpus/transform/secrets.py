"""Keys, tokens and passwords, by the detectors of detect-secrets.

Its regular expressions know the forms that services give their tokens; its keyword detector takes
what is assigned to names such as ``password``. A value counts as one if it is no template, no
reference and more than a word of letters, so ``password = "password"`` stays.
"""

from dataclasses import dataclass
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any


# A place in a text that a placeholder takes.

@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Characters ``start`` to ``end`` of a text, and what they are: email, ip, key, password."""

    start: int
    end: int
    kind: str


def replaced(text: str, findings: list[Finding]) -> str:
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


def secrets(text: str) -> Iterator[Finding]:
    """Keys (private keys, tokens) and passwords (in URLs, and assigned as text)."""
    if "PRIVATE KEY" in text:
        for match in _PRIVATE_KEY.finditer(text):
            yield Finding(*match.span(), "key")
    start = 0
    for line in text.split("\n"):
        if len(line) <= _LONGEST_LINE:
            for begin, end, kind in _in_line(line):
                yield Finding(start + begin, start + end, kind)
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
