"""E-mail addresses of people, and IP addresses that are routed on the internet.

Four numbers with dots are an address, a version, a section or an object identifier. What stands
before them decides; where it says nothing, a number of 100 or more does, because versions and
sections hardly get there, while 97 of 100 addresses do.
"""

import ipaddress
import re
from collections.abc import Iterator

from dph_corpus.transform.spans import PrivateSpan

_EMAIL = re.compile(
    r"(?<![\w.%+@-])[A-Za-z0-9](?:[\w.%+-]{0,62}[A-Za-z0-9_+])?"
    r"@(?P<domain>(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+(?P<last>[A-Za-z]{2,}))(?![\w@])"
)
_DOMAINS = """
    com org net edu gov mil int info biz name io ai co dev app me tv us uk de fr it es pt nl be at
    ch se no fi dk pl cz sk hu ro bg gr ru ua by kz tr il ir in pk bd lk np cn jp kr tw hk sg my th
    vn id ph au nz ca mx br ar cl pe ve uy za ng ke eg ma eu ie is lt lv ee lu si hr ba mk al ge am
    az cc ws xyz tech online site cloud email museum aero coop
"""
_TOP_LEVEL = frozenset(_DOMAINS.split())
"""Domains that people have addresses in. Those that are mostly file types or attributes (py, js,
md, rs, sh) are left out."""
_RESERVED = re.compile(
    r"(?:^|\.)(?:example|test|invalid|localhost|local)(?:\.(?:com|org|net))?$", re.I
)
"""RFC 2606: such addresses belong to nobody."""
_NOBODY = frozenset(("git", "noreply", "no-reply", "user", "username", "hg", "svn"))

# Each begins with its first digit and looks behind it afterwards, which is four times as fast.
_IPV4 = re.compile(
    r"\d(?<![\w./@-]\d)(?<!\w:\d)\d{0,2}(?:\.\d{1,3}){3}(?![\w-]|\.\d)"
    r"|\d(?:(?<=//\d)|(?<=@\d))\d{0,2}(?:\.\d{1,3}){3}(?=[:/\s\"'<>)]|$)",
    re.MULTILINE,
)
_IPV6 = re.compile(r"[23](?<![\w:.][23])[0-9a-fA-F]{3}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")
_RESOLVERS = frozenset(
    ("8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "208.67.222.222", "208.67.220.220")
)
"""Public name servers, which everybody's configuration names."""
_NO_ADDRESS = re.compile(
    r"""(?:version|release|revision|firmware|upgrade)\w{0,12}[\W_]{0,8}$
    |(?:\b|_)(?:v|ver|rev|oid|ec|rfc[ -]?\d+|c\d\d|build|tag)[\W_]{0,8}$
    |(?:\b(?:section|sect?|chapter|chap|clause|appendix|annex|figure|table)s?|§)\W{0,4}$
    |[=~<>!^]=\s*["']?$|~>\s*["']?$|["'\s][~^]$|\w["']?\s*[<>]\s+$
    |(?:version|release|section|oid)\w{0,12}["']?\s*[:=]\s*[\[({][^\])}]*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""Ends of the text before a version, a section or an object identifier."""
_RELEASE = re.compile(
    r"\s*(?:(?:[#=*]+\s+|(?:[#=*-]+\s*)?\[)v?\0\]?[\s(:\u2013-]*|v?\0\s*\()(?:19|20)\d\d-\d\d?-\d\d?"
)
"""A heading of a log of changes: numbers (\0) and a date."""
_NETWORK = re.compile(
    r"""(?i:addr|(?<!g)host|server|listen(?!er)|\bbind(?:_|\b)|\bdns|resolver|gateway|subnet|network
    |netmask|router|proxy|peer|remote|client|\bnodes?\b|\b(?:allow|deny|block|ban)|whitelist|\bping
    |telnet|\bssh|curl|wget|connect(?!or)|socket|inet|cidr|endpoint|cluster|\b(?:domain|origin)\b
    |forwarde|\ba[ ]record)
    |(?i:\bips?(?:v4)?\b|\bip_|_ips?(?:\b|_)|\bip[46]\b)|[a-z]I[Pp]s?\b|\b[iI]p[A-Z]|(?://|@)$""",
    re.VERBOSE,
)
_PRODUCT = re.compile(r"[A-Z]\w*\s+(?:Server|Client|Cluster|Gateway|Proxy|Connect\w*)\s+$")
"""A product before its version, such as "Data Server 7.0.1.1"."""
_PORT = re.compile(r":\d{2,5}\b|/(?:[89]|[12]\d|3[0-2])(?![\d./])|\s+-\s+\S+\s+\[")
"""Text that follows an address: a port, the length of a prefix, the rest of a log's line."""
_CERTAIN = 100


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
