import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dph.errors import SettingsError
from dph_corpus.synth import generators
from dph_corpus.synth.generators import GeneratorError, OwnFunction, Server


@pytest.fixture
def stub():
    """A server that repeats prompt and seed; ``replies`` are sent first, as (status, body)."""
    replies, asked = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers.get("Authorization"), body))
            text = f"{body['messages'][0]['content']} {body['seed']}"
            ok = (200, json.dumps({"choices": [{"message": {"content": text}}]}).encode())
            status, data = replies.pop(0) if replies else ok
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.replies, server.asked = replies, asked
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(generators, "_PAUSE", 0.01)


def test_answers_come_in_the_order_of_the_prompts(stub):
    prompts = [f"prompt {n}" for n in range(20)]
    answers = Server(f"{stub.url}/v1", "small", max_tokens=7)(prompts, list(range(20)))
    assert answers == [f"prompt {n} {n}" for n in range(20)]
    path, key, body = stub.asked[0]
    assert (path, key) == ("/v1/chat/completions", None)
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("small", 7, 1.0)
    Server(stub.url, "small", key="secret")(["a"], [1])
    assert stub.asked[-1][1] == "Bearer secret"


def test_a_busy_server_is_asked_again(stub):
    stub.replies += [(503, b"busy"), (429, b"slowly")]
    assert Server(stub.url, "small")(["a"], [2**40 + 5]) == [f"a {(2**40 + 5) % 2**31}"]
    assert len(stub.asked) == 3


@pytest.mark.parametrize(
    ("replies", "message"),
    [
        ([(401, b"who are you?")], "401 who are you"),
        ([(503, b"busy")] * 5, "503 busy"),
        ([(200, b"<html>")], "answered b'<html>'"),
        ([(200, b'{"choices": []}')], "answered b'{"),
    ],
)
def test_what_cannot_be_an_answer_is_said(stub, replies, message):
    stub.replies += replies
    with pytest.raises(GeneratorError, match=message):
        Server(stub.url, "small")(["a"], [0])


def test_a_server_that_is_not_there_is_said():
    with pytest.raises(GeneratorError, match=r"127.0.0.1:9/v1/chat/completions cannot be reached"):
        Server("http://127.0.0.1:9", "small")(["a"], [0])


def test_only_addresses_of_servers_are_taken():
    with pytest.raises(SettingsError, match="must begin with http"):
        Server("file:///etc/passwd", "small")


def test_a_function_has_to_be_there():
    with pytest.raises(SettingsError, match="no_such_module"):
        OwnFunction("no_such_module:write")
