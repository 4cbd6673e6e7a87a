"""A server of runs in a thread of the test, and requests as they go over the wire."""

import contextlib
import gzip
import http.client
import json
import threading
import time
from types import SimpleNamespace
from urllib.parse import urlsplit

import uvicorn

from dph.results.view import ServedRuns, access_for, serve


@contextlib.contextmanager
def serving(places, access=None):
    """Serve runs on a free port: ``address``, ``port``, ``get(path)`` and ``get_part(name)``."""
    served, ready, made = ServedRuns(places), threading.Event(), []
    found = SimpleNamespace(served=served)

    def on_ready(address):
        found.address, found.port = address, urlsplit(address).port
        ready.set()

    def make_server(config):
        made.append(uvicorn.Server(config))
        return made[0]

    thread = threading.Thread(
        target=serve,
        args=(served, access or access_for("127.0.0.1")),
        kwargs={"port": 0, "on_ready": on_ready, "make_server": make_server},
    )
    thread.start()
    assert ready.wait(60)
    found.get = lambda path: get_json(found.port, f"/api/{path}")
    found.get_part = lambda name: get_json(found.port, f"/data/{name}")
    try:
        yield found
    finally:
        made[0].should_exit = True
        thread.join(60)


def request(port, path, *, method="GET", headers=None):
    """Status, headers and body of an answer, for a request with just these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host="Host" in (headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def get_json(port, path):
    status, headers, body = request(port, path)
    assert status == 200, (status, body)
    zipped = headers.get("content-encoding") == "gzip"
    return json.loads(gzip.decompress(body) if zipped else body)


def wait_for(true, *, seconds=120):
    """Wait until a function returns something true, and return it."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"not true after {seconds} s"
        time.sleep(0.05)
    return found
