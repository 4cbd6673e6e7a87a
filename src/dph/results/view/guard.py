"""Who may ask what: only to read, under a name of this machine, and elsewhere with a token.

The name in Host is checked, because a page from anywhere may ask a browser for ``evil.example``
when that name has come to mean 127.0.0.1 (DNS rebinding); an address in numbers cannot be made to
mean another machine.
"""

import secrets
import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dph.errors import SettingsError

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer. Nothing but the server's own scripts and styles is run or loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """``host`` is listened on, ``names`` are answered to as well; ``token`` None: none is asked."""

    host: str = "127.0.0.1"
    names: Collection[str] = ()
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise SettingsError(f"whoever reaches {self.host!r} is asked for a token: give one")

    def knows(self, host: str) -> bool:
        """Whether ``host`` of a request (with a port or without) means this machine."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        own = {"localhost", self.host.lower(), socket.gethostname().lower()}
        return name in own | {one.lower() for one in self.names} or _is_address(name)


def access_for(host: str, names: Collection[str] = (), *, ask: bool = False) -> Access:
    """Access to a server on ``host``: with a new token unless only this machine reaches it.

    ``ask`` asks for one there too.
    """
    token = secrets.token_urlsafe(24) if ask or not is_loopback(host) else None
    return Access(host=host, names=names, token=token)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Lets through what may pass, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access, *, cookie: str) -> None:
        """``cookie`` names the one that keeps the token: browsers share them between ports."""
        self._app, self._access, self._cookie = app, access, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app = self._refusal(scope) or self._app
        await app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("read only", 405, {"Allow": "GET, HEAD"})
        if not self._access.knows(headers.get("host", "")):
            text = "this server does not answer to that name (dph view --name adds one)"
            return PlainTextResponse(text, 421)
        if self._access.token is None:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and self._is_token(given):
            answer = RedirectResponse(scope.get("root_path", "") + "/", 303)
            answer.set_cookie(self._cookie, given, httponly=True, samesite="strict")
            return answer
        if self._is_token(_cookie(headers.get("cookie", ""), self._cookie)):
            return None
        text = "open the address that dph view printed: it has the token"
        return PlainTextResponse(text, 403)

    def _is_token(self, given: str) -> bool:
        token = self._access.token
        return token is not None and secrets.compare_digest(given.encode(), token.encode())


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value
