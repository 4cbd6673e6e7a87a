"""``dph view``: the report's page, served while its runs grow; it reads and never writes.

Needs the extra ``dph-rl[view]`` (Starlette and uvicorn). No part of an address is ever a path on
disk.
"""

import contextlib
import errno
import hashlib
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from pathlib import Path
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

from dph.errors import DphError, SettingsError
from dph.results.read.found_runs import runs_at
from dph.results.read.run_results import RunResults
from dph.results.report.answers import Limits, answer_blocks, gzipped, json_bytes
from dph.results.report.charts import training_charts
from dph.results.report.page import (
    SERVED_SCRIPTS,
    page_html,
    page_script,
    page_styles,
    progress_of,
    report_index,
    vega_script,
)
from dph.results.report.report_data import ReportData, read_report
from dph.runs.directory import (
    EVALUATION,
    METRICS,
    PROBLEMS_FILE,
    PROGRESS_FILE,
    RECIPE,
    SAMPLES,
    TOKENS_FILE,
)
from dph.runs.evaluate.answers.read import answer_files

logger = logging.getLogger(__name__)

# The report of run directories, made anew when their files change.

LOGS = (METRICS, PROGRESS_FILE)
"""Files that grow while a run trains."""
ANSWERS = (SAMPLES, EVALUATION, PROBLEMS_FILE, TOKENS_FILE, RECIPE)
"""Files that an evaluation writes whole."""


def state_of(places: Iterable[Path], names: Sequence[str]) -> str:
    """A digest of the sizes and times of files: of these names, or the place if it is a file."""
    looked = hashlib.sha256()
    for place in places:
        for file in [place] if place.is_file() else [place / name for name in names]:
            stamp = "-"
            with contextlib.suppress(FileNotFoundError):
                found = file.stat()
                stamp = f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"
            looked.update(f"{file}\0{stamp}\0".encode())
    return looked.hexdigest()[:16]


def answers_state(places: Sequence[Path]) -> str:
    """State of the answers of the runs at ``places`` and of their initial policies."""
    runs = runs_at(places)
    around = [(run, *answer_files(run), *RunResults(run).base_places) for run in runs]
    return state_of([path for paths in around for path in paths], ANSWERS)


LONGEST = 1_000_000
"""Characters of a text that are served."""
_LOOK_EVERY = 1.0
"""Seconds between looks at the files."""
_ASKED_LATELY = 15.0
"""Seconds after the last request during which files are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedPage:
    """A report as it is served; ``parts`` are gzipped JSON: the index, and pieces of answers."""

    state: str
    data: ReportData
    html: str
    styles: str
    parts: Mapping[str, bytes]
    answers: int


def read_page(places: Sequence[Path], *, title: str, seed: int) -> ServedPage:
    """Read the runs at ``places`` and make their page."""
    state = answers_state(places)  # before reading: a file that changes meanwhile is read again
    data = read_report(places, seed=seed)
    blocks = answer_blocks(data, Limits(longest=LONGEST), pack=gzipped)
    return ServedPage(
        state=state,
        # Answers are in the parts now; they are most of the memory.
        data=replace(data, runs=[replace(run, samples=None, tokens={}) for run in data.runs]),
        html=page_html(data, title=title, served=state, answers=blocks.answers),
        styles="\n".join(page_styles(data)),
        parts={"index": gzipped(report_index(data, blocks.index)), **blocks.pieces},
        answers=blocks.answers,
    )


class ServedRuns:
    """The runs at ``places``, as a server shows them."""

    def __init__(self, places: Sequence[Path], *, title: str = "dph view", seed: int = 0) -> None:
        self._places, self._title, self._seed = list(places), title, seed
        self._stop, self._asked = threading.Event(), time.monotonic()
        self._thread = threading.Thread(target=self._keep_up, name="dph view", daemon=True)
        self._error = ""
        self.page = read_page(self._places, title=title, seed=seed)
        self._tried = self.page.state
        self._read_logs()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def state(self) -> dict[str, Any]:
        """State that a page asks for repeatedly: names that change with the data, and progress."""
        self._asked = time.monotonic()
        return {
            "charts": self._logs,
            "answers": self.page.state,
            "error": self._error,
            "progress": self._progress,
        }

    def _keep_up(self) -> None:
        while not self._stop.wait(_LOOK_EVERY):
            try:
                if time.monotonic() - self._asked < _ASKED_LATELY:
                    self._look()
                    self._error = "" if self.page.state == self._tried else self._error
            except (DphError, OSError) as error:
                self._error = f"cannot be read: {error}"
            except Exception:
                self._error = "dph view failed; see its terminal for the cause"
                logger.exception("dph view stopped reading")
                raise

    def _look(self) -> None:
        state = answers_state(self._places)
        if state != self._tried:
            self._tried = state  # an unreadable file is read again when it has changed
            self.page = read_page(self._places, title=self._title, seed=self._seed)
            self._read_logs()
        elif self._logs_state() != self._logs:
            self._read_logs()

    def _logs_state(self) -> str:
        return state_of([run.path for run in self.page.data.runs], LOGS)

    def _read_logs(self) -> None:
        """Draw the charts of training; the state is taken first, so that nothing is missed."""
        logs = self._logs_state()
        runs = [run.with_logs() for run in self.page.data.runs]
        self.charts = [one.document() for one in training_charts(runs, self.page.data.groups)]
        self._progress = progress_of(runs)
        self._logs = logs


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
        """True if ``host`` of a request (with a port or without) means this machine."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        own = {"localhost", self.host.lower(), socket.gethostname().lower()}
        return name in own | {one.lower() for one in self.names} or _is_address(name)


def access_for(host: str, names: Collection[str] = (), *, ask: bool = False) -> Access:
    """Access to ``host``: with a new token unless only this machine reaches it, and if ``ask``."""
    token = secrets.token_urlsafe(24) if ask or not is_loopback(host) else None
    return Access(host=host, names=names, token=token)


def is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Refuses requests that are not allowed, and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, access: Access, *, cookie: str) -> None:
        """``cookie`` names the one that keeps the token: browsers share them between ports."""
        self._app, self._access, self._cookie = app, access, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
    page, vega = page_script(SERVED_SCRIPTS).encode(), vega_script().encode()
    routes = [
        Route("/", lambda _: Response(served.page.html, media_type="text/html")),
        Route("/page.css", lambda _: Response(served.page.styles, media_type="text/css")),
        Route("/page.js", lambda _: Response(page, media_type="text/javascript")),
        Route("/vega.js", lambda _: Response(vega, media_type="text/javascript")),
        Route("/api/state", lambda _: _json(json_bytes(served.state()))),
        Route("/api/charts", lambda _: _json(json_bytes(served.charts))),
        Route("/data/{part}", lambda request: _part(served, request)),
    ]
    middleware = [
        Middleware(Guard, access, cookie=cookie),
        Middleware(GZipMiddleware, minimum_size=10_000, compresslevel=1),
    ]
    return Starlette(routes=routes, middleware=middleware)


def _json(content: bytes, status: int = 200, *, zipped: bool = False) -> Response:
    headers = {"Content-Encoding": "gzip"} if zipped else {}
    return Response(content, status, headers, media_type="application/json")


def _part(served: ServedRuns, request: Request) -> Response:
    """The index or a piece of answers; a name is looked up in a table and never a path on disk."""
    found = served.page.parts.get(request.path_params["part"])
    return _json(b"null", 404) if found is None else _json(found, zipped=True)


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
    """Answer until the process is interrupted; ``on_ready`` gets the address to open."""
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
    host = socket.gethostname() if access.host in ("0.0.0.0", "::") else access.host
    host = f"[{host}]" if ":" in host else host
    token = "" if access.token is None else f"?token={access.token}"
    return f"http://{host}:{port}/{token}"
