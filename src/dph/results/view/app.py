"""The addresses of the server and what they answer; no part of one is ever a path on disk."""

import contextlib
import errno
import secrets
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dph.errors import SettingsError
from dph.results.report.answers import json_bytes
from dph.results.report.page import SERVED_SCRIPTS, page_script, vega_script
from dph.results.view.served_runs import ServedRuns

# Who may ask what: only to read, under a name of this machine, and elsewhere with a token.
#
# The name in Host is checked, because a page from anywhere may ask a browser for ``evil.example``
# when that name has come to mean 127.0.0.1 (DNS rebinding); an address in numbers cannot be made
# to mean another machine.

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
            raise SettingsError(f"a token is required on {self.host!r}: give one")

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


def make_app(served: ServedRuns, access: Access, *, cookie: str = "dph-view") -> Starlette:
    """The server of ``served``; it reads and never writes."""
    fixed = {"/page.js": page_script(SERVED_SCRIPTS).encode(), "/vega.js": vega_script().encode()}
    routes = [
        Route("/", lambda _: Response(served.page.html, media_type="text/html")),
        Route("/page.css", lambda _: Response(served.page.styles, media_type="text/css")),
        Route("/api/state", lambda _: _json(served.state())),
        Route("/api/charts", lambda _: _json(served.charts())),
        Route("/data/{part}", lambda request: _part(served, request.path_params["part"])),
        *(Route(path, _script(text)) for path, text in fixed.items()),
    ]
    middleware = [
        Middleware(Guard, access, cookie=cookie),
        Middleware(GZipMiddleware, minimum_size=10_000, compresslevel=1),
    ]
    return Starlette(routes=routes, middleware=middleware)


def _script(text: bytes) -> Callable[[Request], Response]:
    return lambda _: Response(text, media_type="text/javascript")


def _json(document: Any) -> Response:
    return Response(json_bytes(document), media_type="application/json")


def _part(served: ServedRuns, name: str) -> Response:
    """The index or a piece of answers; a name is looked up in a table and never a path on disk."""
    found = served.page.parts.get(name)
    if found is None:
        return Response(b"null", 404, media_type="application/json")
    encoded = {"Content-Encoding": "gzip"}
    return Response(found, headers=encoded, media_type="application/json")


_AT_ONCE = 64
"""Connections; browsers keep six."""


def serve(
    served: ServedRuns,
    access: Access,
    *,
    port: int,
    on_ready: Callable[[str], None] = lambda _: None,
    make_server: Callable[[uvicorn.Config], uvicorn.Server] = uvicorn.Server,
) -> None:
    """Answer until the process is interrupted; ``on_ready`` is told the address to open.

    ``served`` is closed then, however it ends.
    """
    with contextlib.closing(served), listening(access.host, port) as bound:
        found = bound.getsockname()[1]
        app = make_app(served, access, cookie=f"dph-view-{found}")
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            loop="asyncio",
            http="h11",
            limit_concurrency=_AT_ONCE,
            timeout_graceful_shutdown=1,
        )
        served.start()
        on_ready(address_of(access, found))
        make_server(config).run(sockets=[bound])


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        taken = error.errno == errno.EADDRINUSE
        why = "it is in use; --port 0 picks a free one" if taken else str(error)
        raise SettingsError(f"cannot listen on {host} port {port}: {why}") from error
    return bound


def address_of(access: Access, port: int) -> str:
    """The address to open, with the token where one is asked for."""
    host = access.host
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    host = f"[{host}]" if ":" in host else host
    token = "" if access.token is None else f"?token={access.token}"
    return f"http://{host}:{port}/{token}"
