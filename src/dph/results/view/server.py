"""The server itself: a socket, and uvicorn on it until somebody ends it."""

import contextlib
import errno
import socket
from collections.abc import Callable

import uvicorn

from dph.errors import SettingsError
from dph.results.view.app import make_app
from dph.results.view.guard import Access
from dph.results.view.served_runs import ServedRuns

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
        why = "it is taken; --port 0 takes a free one" if taken else str(error)
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
