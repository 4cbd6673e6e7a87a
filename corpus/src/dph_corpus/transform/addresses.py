"""E-mail addresses of people, and IP addresses that are routed on the internet.

Four numbers with dots are an address, a version, a section or an object identifier. What stands
before them decides; where it says nothing, a number of 100 or more does, because versions and
sections hardly get there, while 97 of 100 addresses do.
"""

import ipaddress
import re
from collections.abc import Iterator

from dph_corpus.packaged import packaged
from dph_corpus.transform.spans import PrivateSpan

_TABLE = packaged("transform/addresses.toml", dict[str, str])
_EMAIL, _IPV6, _PRODUCT, _PORT = (
    re.compile(_TABLE[n], re.ASCII) for n in ("email", "ipv6", "product", "port")
)
_RELEASE = re.compile(_TABLE["release"])
_IPV4 = re.compile(_TABLE["ipv4"], re.MULTILINE | re.ASCII)
_RESERVED = re.compile(_TABLE["reserved"], re.IGNORECASE)
_NO_ADDRESS = re.compile(_TABLE["no_address"], re.IGNORECASE | re.VERBOSE)
_NETWORK = re.compile(_TABLE["network"], re.VERBOSE)
_TOP_LEVEL, _RESOLVERS = (frozenset(_TABLE[name].split()) for name in ("domains", "resolvers"))
_NOBODY = frozenset(("git", "noreply", "no-reply", "user", "username", "hg", "svn"))

_CERTAIN = 100


def email_addresses(text: str) -> Iterator[PrivateSpan]:
    """Addresses of people: not those of reserved domains, nor of ``git@`` and the like."""
    if "@" not in text:
        return
    for match in _EMAIL.finditer(text):
        local = match["address"].partition("@")[0].lower()
        known = match["last"].lower() in _TOP_LEVEL
        if known and local not in _NOBODY and not _RESERVED.search(match["domain"]):
            yield PrivateSpan(*match.span("address"), "email")


def public_addresses(text: str) -> Iterator[PrivateSpan]:
    """IP addresses that are routed on the internet; no versions, no well-known name servers."""
    for pattern in (_IPV4, _IPV6):
        for match in pattern.finditer(text):
            if _is_public(match[0]) and _is_meant(text, match):
                yield PrivateSpan(*match.span(), "ip")


def _is_public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast and text not in _RESOLVERS


def _is_meant(text: str, match: re.Match[str]) -> bool:
    """Whether the surrounding text confirms an address, or at least does not contradict one."""
    before = text[max(0, match.start() - 80) : match.start()].rpartition("\n")[2]
    after = text[match.end() : match.end() + 40].partition("\n")[0]
    if _NO_ADDRESS.search(before) or _RELEASE.match(f"{before}\0{after}"):
        return False
    if _is_certain(match[0]):
        return True
    named = _NETWORK.search(before) and not _PRODUCT.search(before)
    others = (other[0] for other in _IPV4.finditer(before + match[0] + after))
    return bool(named or _PORT.match(after) or any(map(_is_certain, others)))


def _is_certain(quad: str) -> bool:
    return ":" in quad or _CERTAIN <= max(map(int, quad.split("."))) < 256
