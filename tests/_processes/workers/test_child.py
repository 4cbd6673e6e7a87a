import io
import json
import os
import resource
import subprocess
import sys
import time

import pytest

from dph._processes.workers import child as worker
from dph._processes.workers.handler import BoundedCache

MODULE = """
    def make(options):
        if options == "bad":
            raise LookupError("no such thing")
        def handle(request, stage):
            stage("working")
            return request * 2
        return handle
"""


def serve(handler, options, *requests):
    source = io.BytesIO(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
    sink = io.BytesIO()
    worker.serve(source, sink, {"handler": handler, "options": options, "seconds": 1e9})
    messages = [json.loads(line) for line in sink.getvalue().splitlines()]
    assert all(0 <= message[2] < 60 for message in messages if message[0] in ("ok", "error"))
    return [message[:2] for message in messages]


@pytest.fixture(autouse=True)
def _no_processor_limit(monkeypatch):
    monkeypatch.setattr(worker.resource, "setrlimit", lambda *_: None)


def test_each_request_is_answered_on_a_line_of_its_own(user_module):
    assert serve(f"{user_module(MODULE)}:make", {}, 2, "ab", None) == [
        *(["ready"], ["stage", "working"], ["ok", 4], ["stage", "working"]),
        *(["ok", "abab"], ["stage", "working"]),
        ["error", "TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'"],
    ]


def test_a_handler_that_cannot_be_made_is_reported_and_long_reasons_are_cut(user_module):
    name = user_module(MODULE)
    assert serve(f"{name}:make", "bad", 1) == [["failed", "LookupError: no such thing"]]
    assert serve(f"{name}:other", {}, 1) == [
        ["failed", f"'{name}' has no 'other' (looking for '{name}:other')"]
    ]
    name = user_module("def make(options):\n    raise ValueError('x' * 100_000)")
    assert len(serve(f"{name}:make", {})[0][1]) <= 1000


def test_processor_time_is_limited_beyond_the_time_limit(monkeypatch):
    limits = []
    monkeypatch.setattr(worker.resource, "setrlimit", lambda _, pair: limits.append(pair))
    monkeypatch.setattr(worker.resource, "getrlimit", lambda _: (-1, -1))
    worker._limit_processor_time(5)
    monkeypatch.setattr(worker.resource, "getrlimit", lambda _: (-1, 7))
    worker._limit_processor_time(5)
    assert limits[0][0] > time.process_time() + 5
    assert limits[1] == (7, 7)


def begun(handler, parent, *requests):
    """A worker that has been told what to do, and whose answers can be read."""
    child = subprocess.Popen(
        [sys.executable, "-m", "dph._processes.workers.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    hello = {"handler": handler, "options": {}, "parent": parent, "seconds": 9}
    lines = [json.dumps(each).encode() + b"\n" for each in (hello, *requests)]
    child.stdin.write(b"".join(lines))
    child.stdin.flush()
    return child


def test_a_worker_ends_when_its_stdin_closes_also_in_the_middle_of_a_request(user_module):
    name = user_module("def make(o):\n    def h(r, s):\n        while True: pass\n    return h")
    child = begun(f"{name}:make", os.getpid(), 1)
    assert json.loads(child.stdout.readline()) == ["ready"]
    child.stdin.close()
    assert child.wait(timeout=60) == 0
    child.stdout.close()


def test_a_worker_ends_when_its_parent_is_another(user_module):
    with begun(f"{user_module(MODULE)}:make", 1) as child:
        assert child.wait(timeout=60) == 0


def test_starting_a_worker_loads_no_heavy_library():
    code = (
        "import sys, dph._processes.workers.child, dph.tasks.verifiers.sql.handler;"
        "print([m for m in ('torch', 'numpy', 'pyarrow', 'transformers') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.strip() == b"[]"


def test_what_was_used_least_recently_is_forgotten_and_a_key_is_kept_once():
    cache = BoundedCache(2)
    cache.put(1, "one")
    cache.put(2, "two")
    assert cache.get(1) == "one"
    cache.put(3, "three")
    assert [cache.get(key) for key in (1, 2, 3)] == ["one", None, "three"]
    for value in range(5):
        cache.put("same", value)
    cache.put("other", 0)
    assert cache.get("same") == 4


_CODE = """
from dph._processes.workers.handler import limit_address_space
limit_address_space(2_000_000_000)
try:
    bytearray(3_000_000_000)
except MemoryError:
    print("refused")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_an_allocation_beyond_the_limit_fails():
    before = resource.getrlimit(resource.RLIMIT_AS)
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
    assert resource.getrlimit(resource.RLIMIT_AS) == before
