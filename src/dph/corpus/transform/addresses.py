"""E-mail addresses and public IP addresses."""

import ipaddress
import re
from collections.abc import Iterator

from dph.corpus.transform.secrets import Finding

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


def email_addresses(text: str) -> Iterator[Finding]:
    """Addresses of people: not those of reserved domains, nor of ``git@`` and the like."""
    if "@" not in text:
        return
    for match in _EMAIL.finditer(text):
        local = match[0].partition("@")[0].lower()
        known = match["last"].lower() in _TOP_LEVEL
        if known and local not in _NOBODY and not _RESERVED.search(match["domain"]):
            yield Finding(*match.span(), "email")


def public_addresses(text: str) -> Iterator[Finding]:
    """IP addresses that are routed on the internet; no versions, no well-known name servers."""
    for pattern in (_IPV4, _IPV4_IN_URL, _IPV6):
        for match in pattern.finditer(text):
            before = text[max(0, match.start() - 16) : match.start()]
            if _is_public(match[0]) and not _VERSION.search(before):
                yield Finding(*match.span(), "ip")


def _is_public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast and text not in _RESOLVERS
