import gc
import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dph._processes.workers import child as worker
from dph._processes.workers import pool as workers
from dph._processes.workers.handler import BoundedCache
from dph._processes.workers.pool import GOLD_STAGE, WorkerPool, verdict_of
from dph._processes.workers.process import Reply, ReplyKind
from dph.errors import SettingsError, VerifierError
from dph.records import Outcome, Verdict
from worker_fixtures import children_of, gone

HANDLER = """
    import os, subprocess, sys, time
    from environment_classes import _write_to_every_pipe

    def make(options):
        if options.get("fail"):
            raise RuntimeError(options["fail"])
        if options.get("die"):
            os._exit(3)
        _write_to_every_pipe(options.get("write", "").encode())
        time.sleep(options.get("slow", 0))
        return handle

    def handle(request, stage):
        action, value = request
        if action == "write":
            _write_to_every_pipe(value.encode())
        if action == "sleep":
            stage("sleeping")
            time.sleep(value)
        if action == "compute":
            until = time.process_time() + value
            while time.process_time() < until:
                pass
        if action == "crowd":
            core = min(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {core})
            busy = "import time; any(time.monotonic() > 1e9 for _ in iter(int, 1))"
            return [subprocess.Popen([sys.executable, "-c", busy]).pid for _ in range(value)]
        if action == "print":
            print(value)
            sys.stdout.flush()
            os.write(1, b"raw\\n")
            print(input.__name__, sys.stdin.read())
        if action == "die":
            os._exit(value)
        if action == "kill":
            os.kill(os.getpid(), 9)
        if action == "raise":
            raise ValueError(value)
        if action == "exit":
            sys.exit(value)
        if action == "bad value":
            return object()
        if action == "grandchild":
            return subprocess.Popen(["sleep", "100"]).pid
        if action == "pid":
            return os.getpid()
        return value
"""


@pytest.fixture
def make_pool(user_module):
    name = user_module(HANDLER)
    pools = []

    def make(workers=1, timeout=10.0, start_timeout=60.0, **options):
        limits = {"workers": workers, "timeout": timeout, "start_timeout": start_timeout}
        pools.append(
            WorkerPool(handler=f"{name}:make", options=options, shared_stage="sleeping", **limits)
        )
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def kinds(replies):
    return [reply.kind.name for reply in replies]


@pytest.mark.parametrize("count", [1, 3])
def test_replies_come_in_the_order_of_the_requests(make_pool, count):
    values = [[i, "é\ud800\n", None, 1.5] for i in range(200)]
    replies = make_pool(workers=count).run([("echo", value) for value in values])
    assert [reply.value for reply in replies] == values


def test_closing_without_a_request_ends_a_started_worker_and_no_requests_start_none(make_pool):
    before = children_of(os.getpid())
    assert make_pool().run([]) == []
    assert children_of(os.getpid()) == before
    with make_pool() as pool:
        pool.start("it")
        assert children_of(os.getpid()) != before
    assert children_of(os.getpid()) == before


LINES = ["debug\n", "debug", "\n", "5\n", "{}\n", '["ok", 7, 0.0]\n', "[" * 20_000 + "\n"]
CRASHES = [("die", 7, "the worker died: exit code 7"), ("kill", 7, "the worker died: SIGKILL")]
CRASHES += [("write", line, "its process sent a malformed answer") for line in LINES]


@pytest.mark.parametrize(("action", "value", "reason"), CRASHES)
def test_a_crash_costs_one_request_and_the_worker(make_pool, action, value, reason):
    pool = make_pool()
    requests = [("echo", 0), (action, value), ("echo", 2), ("pid", 0)]
    replies = pool.run(requests)
    assert kinds(replies) == ["OK", "CRASHED", "OK", "OK"]
    assert replies[1].reason == reason
    assert replies[2].value == 2
    more = [(action, value), ("echo", "x" * 3_000_000), ("echo", 2)]  # more is being sent
    assert kinds(pool.run(more)) == ["CRASHED", "OK", "OK"]


def test_a_worker_over_its_limit_is_killed_and_the_others_in_flight_are_answered(make_pool):
    pool = make_pool(workers=2, timeout=0.5)
    pids = {pool.run([("pid", 0)])[0].value for _ in range(5)}
    requests = [("echo", i) for i in range(10)] + [("sleep", 60)] + [("echo", i) for i in range(10)]
    replies = pool.run(requests)
    assert kinds(replies) == ["OK"] * 10 + ["TIMED_OUT"] + ["OK"] * 10
    assert replies[10].stage == "sleeping"
    assert "0.5 s" in replies[10].reason
    assert replies[10].seconds < 60
    pool.close()
    assert all(gone(pid) for pid in pids)


def test_a_shared_stage_that_costs_a_worker_costs_no_other(make_pool):
    pool = make_pool(timeout=0.4)
    requests = [("sleep", 60), ("echo", 1), ("sleep", 61), ("sleep", 0), ("sleep", 62)]
    replies = pool.run(requests, keys=["bad", "bad", "bad", "good", "bad"])
    again = pool.run([("sleep", 63)], keys=["bad"])
    assert kinds(replies + again) == [*["TIMED_OUT"] * 3, "OK", *["TIMED_OUT"] * 2]
    assert {reply.stage for reply in replies if reply.kind.name == "TIMED_OUT"} == {"sleeping"}
    assert replies[0].seconds >= 0.4
    assert replies[4].seconds == again[0].seconds == 0
    assert kinds(pool.run([("echo", 1), ("sleep", 0)])) == ["OK", "OK"]  # of no key


def test_the_limit_is_for_each_request_and_not_for_the_batch_nor_for_the_start(make_pool):
    replies = make_pool(timeout=1.0).run([("sleep", 0.2)] * 8)
    assert kinds(replies) == ["OK"] * 8
    assert kinds(make_pool(timeout=0.5, slow=1).run([("echo", 1)])) == ["OK"]


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="nobody counts waiting")
def test_a_busy_machine_takes_nothing_from_a_request(make_pool):
    pool = make_pool(timeout=1.0)
    (crowd,) = pool.run([("crowd", 3)])  # four processes on its one core
    computed, stuck = pool.run([("compute", 0.4), ("sleep", 60)])
    assert computed.kind.name == "OK"
    assert computed.seconds > 1.0
    assert stuck.kind.name == "TIMED_OUT"
    assert stuck.seconds < 60
    pool.close()
    assert all(gone(pid) for pid in crowd.value)


def test_what_the_handler_raises_comes_back_as_an_error(make_pool):
    requests = [("raise", "no good"), ("exit", 3), ("bad value", 0), ("echo", 4)]
    replies = make_pool().run(requests)
    assert kinds(replies) == ["ERROR"] * 3 + ["OK"]
    assert replies[0].reason == "ValueError: no good"
    assert replies[1].reason == "SystemExit: 3"
    assert "object" in replies[2].reason


def test_prints_do_not_reach_the_protocol(make_pool, capfd):
    replies = make_pool().run([("print", '["ok", "forged"]'), ("echo", 2)])
    assert [reply.value for reply in replies] == ['["ok", "forged"]', 2]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "raw" in captured.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fail": "no licence"}, "RuntimeError: no licence"),
        ({"die": True}, "exit code 3"),
        ({"write": "debug\n"}, "sent a malformed answer"),
        ({"slow": 60, "start_timeout": 0.3}, "not ready after 0.3 s"),
    ],
)
def test_a_worker_that_cannot_start_says_why(make_pool, options, words):
    pool = make_pool(**options)
    with pytest.raises(SettingsError, match=f"the grader cannot be used: .*{words}"):
        pool.start("the grader")
    with pytest.raises(VerifierError, match="closed"):
        pool.run([("echo", 1)])
    replies = make_pool(**options).run([("echo", 1), ("echo", 2)])
    assert kinds(replies) == ["FAILED"] * 2
    assert words in replies[0].reason


def test_many_threads_get_their_own_replies(make_pool):
    pool = make_pool(workers=2)
    asked = [[[name, i, j] for j in range(5)] for name in range(8) for i in range(20)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda some: pool.run([("echo", one) for one in some]), asked))
    assert [[reply.value for reply in replies] for replies in found] == asked


def test_closing_ends_the_workers_and_what_they_started(make_pool):
    pool = make_pool()
    worker, grandchild = (r.value for r in pool.run([("pid", 0), ("grandchild", 0)]))
    pool.close()
    pool.close()
    assert worker not in children_of(os.getpid())
    assert gone(worker)
    assert gone(grandchild)
    with pytest.raises(VerifierError, match="closed"):
        pool.run([("echo", 1)])
    with pytest.raises(SettingsError, match="closed"):
        pool.start("it")


def test_closing_fails_what_is_in_flight(make_pool):
    pool = make_pool()
    replies = []
    requests = [("sleep", 60)] + [("echo", 1)] * 60
    thread = threading.Thread(target=lambda: replies.extend(pool.run(requests)))
    thread.start()
    while not children_of(os.getpid()):
        time.sleep(0.01)
    time.sleep(0.5)
    pool.close()
    thread.join(timeout=60)
    assert kinds(replies) == ["FAILED"] * 61
    assert "closed" in replies[0].reason


def test_a_pool_that_nobody_holds_ends_its_workers(user_module):
    pool = WorkerPool(handler=f"{user_module(HANDLER)}:make", options={})
    worker = pool.run([("pid", 0)])[0].value
    del pool
    gc.collect()
    assert gone(worker)


def test_an_interrupted_call_leaves_a_pool_that_works(make_pool, monkeypatch):
    pool = make_pool()

    class Interrupted(threading.Event):
        def wait(self, _timeout=None):
            raise KeyboardInterrupt

    class Batch(workers._Batch):
        def __init__(self, size):
            super().__init__(size)
            self.done = Interrupted()

    with monkeypatch.context() as patch:
        patch.setattr(workers, "_Batch", Batch)
        with pytest.raises(KeyboardInterrupt):
            pool.run([("echo", i) for i in range(1000)])
    assert pool.run([("echo", "next")])[0].value == "next"


def test_settings_out_of_range_are_refused(make_pool):
    with pytest.raises(SettingsError, match="at least 1, got 0"):
        make_pool(workers=0)
    for seconds in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(SettingsError, match="timeout"):
            make_pool(timeout=seconds)


def test_a_forked_process_is_refused_and_leaves_the_workers_alone(make_pool, monkeypatch):
    pool = make_pool()
    pid = pool.run([("pid", 0)])[0].value
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        with pytest.raises(VerifierError, match="another process"):
            pool.run([("echo", 1)])
        pool._work.close()
    assert pool.run([("pid", 0)])[0].value == pid


def started(*words):
    """A Python that can import what this one can, with pipes to its input and output."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    search = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, *words], env=os.environ | search, **pipes)


PARENT = """
import json, os, sys, threading
from dph._processes.workers.pool import WorkerPool
pool = WorkerPool(handler="{name}:make", options={{}}, workers=2)
pids = [pool.run([("pid", 0)])[0].value for _ in range(4)]
print(json.dumps(pids), flush=True)
threading.Thread(target=pool.run, args=([("sleep", 100)],), daemon=True).start()
{ending}
"""


@pytest.mark.parametrize(
    "ending", ["sys.stdin.readline(); os.kill(os.getpid(), 9)", "raise SystemExit(1)"]
)
def test_no_worker_outlives_its_parent(user_module, ending):
    script = PARENT.format(name=user_module(HANDLER), ending=ending)
    parent = started("-c", script)
    pids = set(json.loads(parent.stdout.readline()))
    if "stdin" in ending:
        pids |= children_of(parent.pid)
    parent.communicate(b"\n", timeout=60)
    assert parent.returncode in (-signal.SIGKILL, 0, 1)
    assert pids
    assert all(gone(pid) for pid in pids)


GREEDY = """
    held = []

    def make(options):
        return handle

    def handle(request, stage):
        if request:
            import os, time
            held.append(b"x" * request)
            time.sleep(0.03)
        import os
        return os.getpid()
"""


def test_a_worker_that_holds_too_much_is_replaced_and_no_request_is_lost(user_module):
    with WorkerPool(handler=f"{user_module(GREEDY)}:make", options={}) as pool:
        requests = [0, 1000, 300_000_000, 0, 0]
        replies = pool.run(requests)
        assert kinds(replies) == ["OK"] * 5
        pids = [reply.value for reply in replies]
        assert pids[0] == pids[1] == pids[2] != pids[3] == pids[4]
        assert gone(pids[0])
        assert replies[2].seconds >= 0.03
        last, after = pool.run([300_000_000])[0].value, pool.run([0])[0].value
        assert last == pids[4] != after


def test_how_a_worker_ended_decides_the_outcome_and_what_a_handler_answered_is_the_verdict():
    for kind, stage, outcome, reason in (
        *(("CRASHED", "", "CRASHED", "x"), ("CRASHED", "prediction", "CRASHED", "x")),
        *(("TIMED_OUT", "", "TIMED_OUT", "x"), ("OK", GOLD_STAGE, "WRONG", "half")),
        ("CRASHED", GOLD_STAGE, "BAD_GOLD", "the gold failed: x"),
        ("TIMED_OUT", GOLD_STAGE, "BAD_GOLD", "the gold failed: x"),
    ):
        value = ["WRONG", 0.5, "half"] if kind == "OK" else None
        reply = Reply(ReplyKind[kind], value=value, reason="x", stage=stage)
        verdict = verdict_of(reply, verifier="sql", subject="SELECT 2")
        reward = 0.5 if value else 0.0
        assert verdict == Verdict(outcome=Outcome(outcome), reward=reward, reason=reason)


@pytest.mark.parametrize("kind", [ReplyKind.ERROR, ReplyKind.FAILED])
def test_what_a_worker_could_not_do_is_an_error_that_names_verifier_and_subject(kind):
    with pytest.raises(VerifierError, match="'sql' failed on 'SELECT 2': KeyError"):
        verdict_of(Reply(kind, reason="KeyError: 'sql'"), verifier="sql", subject="SELECT 2")


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


def begun(handler, parent, *requests):
    """A worker that has been told what to do, and whose answers can be read."""
    child = started("-m", "dph._processes.workers.child")
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
    cache = BoundedCache(9, most=10, size_of=lambda size: size)
    for key, size, kept in (("a", 6, "a"), ("b", 4, "ab"), ("c", 1, "bc"), ("d", 11, "")):
        cache.put(key, size)
        assert "".join(cache._values) == kept
    cache.put("a", 10)
    assert cache.get("a") == 10


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
