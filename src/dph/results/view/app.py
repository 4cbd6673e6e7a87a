"""The addresses of the server: a fixed table, and no part of an address is ever a path on disk."""

from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dph.errors import DataError, SettingsError
from dph.results.report.packed import json_bytes
from dph.results.report.page import SERVED_SCRIPTS, page_script
from dph.results.report.vega_scripts import vega_script
from dph.results.view.documents import (
    Words,
    answers_document,
    index_document,
    problem_document,
    problems_document,
    text_document,
)
from dph.results.view.guard import Access, Guard
from dph.results.view.served_runs import ServedRuns

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
