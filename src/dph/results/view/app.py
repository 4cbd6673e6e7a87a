"""The addresses of the server and what they answer; no part of one is ever a path on disk."""

import contextlib
import errno
import secrets
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.results.read.run_results import token_detail
from dph.results.report.answers import EqualAnswers, equal_answers, json_bytes, shown_problem
from dph.results.report.page import SERVED_SCRIPTS, page_index, page_script, vega_script
from dph.results.view.served_runs import ServedRuns
from dph.results.view.set_index import MOST, SetIndex, number_of, query_of
from dph.results.view.snapshot import Snapshot

# The documents, as JSON. Names in an address are looked up in tables of what was read; None: there
# is no such thing.

Words = Mapping[str, str]

LONGEST = 50_000
"""Characters of a text that come with a problem; a click brings the whole."""
ANSWERS = 100
"""Different answers of a run to a problem that come at once; a click brings as many more."""


def index_document(served: ServedRuns) -> dict[str, Any]:
    """Runs, charts, and what problems can be filtered by."""
    snapshot = served.snapshot
    runs = [run for of in snapshot.sets.values() for run in of.runs.values()]
    seen = {name for run in runs for name in run.counts.outcomes}
    styles = dict.fromkeys(name for run in runs for name in run.counts.styles)
    return {
        **page_index(snapshot.data()),
        "charts": served.charts(),
        "table": served.table,
        "sets": [
            {"set": name, "size": len(of.ids), "runs": {key: {} for key in of.runs}}
            for name, of in snapshot.sets.items()
        ],
        "outcomes": list(Outcome),
        "seen": [outcome.value for outcome in Outcome if outcome in seen],
        "styles": list(styles),
        "state": served.state(),
    }


def problems_document(served: ServedRuns, words: Words) -> dict[str, Any] | None:
    """Lines ``first`` to ``first + count`` of the list of problems that pass a filter."""
    snapshot = served.snapshot
    query = query_of(words)
    of = snapshot.sets.get(query.set)
    if of is None:
        return None
    first = max(0, number_of(words, "first"))
    count = min(MOST, max(0, number_of(words, "count", MOST)))
    places = of.places(query, snapshot.texts.having(query))
    lines = [of.line(int(place)) for place in places[first : first + count]]
    return {"count": len(places), "problems": lines}


def problem_document(served: ServedRuns, words: Words) -> dict[str, Any] | None:
    """A problem with the answers of every run, and its neighbours in the list."""
    snapshot = served.snapshot
    query = query_of(words)
    of = snapshot.sets.get(query.set)
    place = None if of is None else of.place.get(words.get("id", ""))
    if of is None or place is None:
        return None
    listed = of.places(query, snapshot.texts.having(query))
    here = np.flatnonzero(listed == place)
    around, at = (listed, int(here[0])) if len(here) else (np.arange(len(of.ids)), place)
    problem_id = of.ids[place]
    return {
        "listed": of.line(place),
        "problem": shown_problem(of.problems.get(problem_id)),
        "runs": {key: _answers(snapshot, of, key, place, 0) for key in of.runs},
        "at": at,
        "of": len(around),
        "previous": of.ids[int(around[at - 1])] if at else None,
        "next": of.ids[int(around[at + 1])] if at + 1 < len(around) else None,
    }


def answers_document(served: ServedRuns, words: Words) -> list[dict[str, Any]] | None:
    """Further answers of a run to a problem, from the ``first``-th different one on."""
    found = _run_of(served.snapshot, words)
    if found is None:
        return None
    of, key, place = found
    first = max(0, number_of(words, "first"))
    answers: list[dict[str, Any]] = _answers(served.snapshot, of, key, place, first)["answers"]
    return answers


def text_document(served: ServedRuns, words: Words) -> str | None:
    """The whole text of one answer."""
    found = _run_of(served.snapshot, words)
    if found is None:
        return None
    sample = number_of(words, "sample")
    rows = _rows(served.snapshot, *found)
    return next((str(row["text"]) for row in rows if row["sample_index"] == sample), None)


def _run_of(snapshot: Snapshot, words: Words) -> tuple[SetIndex, str, int] | None:
    of = snapshot.sets.get(words.get("set", ""))
    key, problem_id = words.get("run", ""), words.get("id", "")
    if of is None or key not in of.runs or problem_id not in of.place:
        return None
    return of, key, of.place[problem_id]


def _rows(snapshot: Snapshot, of: SetIndex, key: str, place: int) -> list[Mapping[str, Any]]:
    run = of.runs[key]
    at = int(run.at[place])
    if at < 0:
        return []
    return snapshot.samples[key].rows(int(run.counts.first[at]), int(run.counts.rows[at]))


def _answers(snapshot: Snapshot, of: SetIndex, key: str, place: int, first: int) -> dict[str, Any]:
    ranked = equal_answers(_rows(snapshot, of, key, place))
    details = _details(snapshot, key, of.name, of.ids[place])
    shown = ranked[first : first + ANSWERS]
    return {"different": len(ranked), "answers": [_answer(one, details) for one in shown]}


def _answer(one: EqualAnswers, details: Mapping[int, Any]) -> dict[str, Any]:
    shortened = {"text": one.text[:LONGEST], "reason": one.reason[:LONGEST]}
    return {**one.document(details), **shortened, "length": len(one.text)}


def _details(snapshot: Snapshot, key: str, name: str, problem_id: str) -> dict[int, Any]:
    """Tokens of a run's answers to a problem, by sample."""
    if key not in snapshot.tokens:
        return {}
    file, places = snapshot.tokens[key]
    if (name, problem_id) not in places:
        return {}
    rows = file.rows(*places[name, problem_id])
    return {row["sample_index"]: token_detail(row) for row in rows}


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


_DOCUMENTS: dict[str, Callable[[ServedRuns, Words], Any]] = {
    "index": lambda served, _: index_document(served),
    "state": lambda served, _: served.state(),
    "charts": lambda served, _: served.charts(),
    "problems": problems_document,
    "problem": problem_document,
    "answers": answers_document,
    "text": text_document,
}


def make_app(served: ServedRuns, access: Access, *, cookie: str = "dph-view") -> Starlette:
    """The server of ``served``; it reads and never writes."""
    fixed = {
        "/page.js": ("text/javascript", page_script(SERVED_SCRIPTS).encode()),
        "/vega.js": ("text/javascript", vega_script().encode()),
    }
    routes = [
        Route("/", lambda _: _text("text/html", served.html.encode())),
        Route("/page.css", lambda _: _text("text/css", served.styles().encode())),
        *(Route(path, _fixed(*content)) for path, content in fixed.items()),
        *(Route(f"/api/{name}", _answering(served, make)) for name, make in _DOCUMENTS.items()),
    ]
    middleware = [
        Middleware(Guard, access, cookie=cookie),
        Middleware(GZipMiddleware, minimum_size=10_000, compresslevel=1),
    ]
    return Starlette(routes=routes, middleware=middleware)


def _answering(
    served: ServedRuns, make: Callable[[ServedRuns, Words], Any]
) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            document = make(served, request.query_params)
        except (SettingsError, DataError) as error:
            status = 400 if isinstance(error, SettingsError) else 500
            return _json({"error": str(error)}, status)
        return _json(document, 404 if document is None else 200)

    return answer


def _json(document: Any, status: int) -> Response:
    return Response(json_bytes(document), status, media_type="application/json")


def _fixed(media_type: str, content: bytes) -> Callable[[Request], Response]:
    return lambda _: _text(media_type, content)


def _text(media_type: str, content: bytes) -> Response:
    return Response(content, media_type=media_type)


# The server itself: a socket, and uvicorn on it until somebody ends it.

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

    Raises:
        SettingsError: the address cannot be listened on.
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
    """A socket that listens; port 0 takes a free one.

    Raises:
        SettingsError: the port is taken, or the host is not one of this machine.
    """
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
