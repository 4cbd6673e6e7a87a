import os
import subprocess
import sys
import time

import pytest

from dph._processes.child import PARENT, Zygote, kill_group, start_child
from worker_fixtures import gone

WATCHING = """
import os, sys, time
from dph._processes.child import end_when_left
end_when_left(0, code=7, parent=int(sys.argv[1]) if len(sys.argv) > 1 else None)
print(sys.flags.safe_path, os.environ.get("HOME"), sum(range(10)), flush=True)
time.sleep(90)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "watching.py").write_text(WATCHING)
    started = []

    def start(*words):
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        child = start_child("watching", *words, env={}, start_new_session=True, **streams)
        started.append(child)
        return child

    yield start
    for child in started:
        kill_group(child.pid)
        child.communicate()


def test_a_child_imports_what_its_parent_can_and_ends_once_nobody_can_write_to_it(start):
    child = start()
    assert child.stdout.readline() == b"True None 45\n"
    child.stdin.write(b"what is not read yet does not count\n")
    child.stdin.close()
    assert child.wait(timeout=60) == 7
    child.stdin = None


def test_it_ends_once_its_parent_is_another_than_the_one_that_was_named(start):
    assert start("1").wait(timeout=60) == 7
    child = start(str(os.getpid()))
    child.stdout.readline()
    time.sleep(0.2)
    assert child.poll() is None


WAITING = (
    "from dph._processes.child import end_with_parent; import time; end_with_parent(); "
    "print('ready', flush=True); time.sleep(90)"
)


def test_it_ends_once_the_other_is_gone():
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(90)"])
    env = {**os.environ, PARENT: str(other.pid)}
    words = [sys.executable, "-c", WAITING]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.5)
        assert process.poll() is None
        other.kill()
        other.wait()
        assert process.wait(timeout=60) != 0


@pytest.mark.skipif(sys.platform != "linux", reason="groups are looked up in /proc")
def test_a_group_is_killed_whole_and_killing_it_again_is_harmless():
    code = "import os, time; pid = os.fork(); pid and print(pid, flush=True); time.sleep(90)"
    leader = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    with leader:
        inside = int(leader.stdout.readline())
        kill_group(leader.pid)
        assert leader.wait() == -9
    assert gone(inside)
    kill_group(leader.pid)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")

SERVER = """
import os, socket, time
from dph._processes.child import ForkServer
def play(message, descriptors):
    os.write(descriptors[0], message["start"].encode())
    time.sleep(message["seconds"])
    os._exit(message["code"])
if __name__ == "__main__":
    ForkServer(socket.socket(fileno=os.dup(0)), play).serve()
"""


@pytest.fixture
def zygote(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "small_zygote.py").write_text(SERVER)
    made = Zygote("small_zygote", env=os.environ)
    yield made
    made.close()
    assert made.process.returncode is not None


def forked(zygote, said, seconds=0.0, code=0):
    ours, theirs = os.pipe()
    message = {"start": said, "seconds": seconds, "code": code}
    pid = zygote.ask(message, [theirs])["pid"]
    os.close(theirs)
    found = os.read(ours, 100)
    os.close(ours)
    assert found.decode() == said
    return pid


def test_children_end_by_themselves_or_by_a_signal_and_the_zygote_when_nobody_can_ask(zygote):
    pids = [forked(zygote, "a", code=3), forked(zygote, "b")]
    assert len({zygote.process.pid, *pids}) == 3
    ends = [zygote.ask({"wait": pid, "seconds": 30})["status"] for pid in pids]
    assert ends == [3, 0]
    assert zygote.ask({"wait": pids[0], "seconds": 0})["status"] == 3  # however often it is asked
    pid = forked(zygote, "a", seconds=90)
    assert zygote.ask({"wait": pid, "seconds": 0.05})["status"] is None
    os.kill(pid, 9)
    assert zygote.ask({"wait": pid, "seconds": 30})["status"] == -9
    forked(zygote, "a")
    zygote.close(patience=30)
    assert zygote.process.returncode == 0


def test_a_zygote_that_is_gone_is_an_error_that_says_how_it_ended(zygote):
    zygote.process.kill()
    with pytest.raises(OSError, match=r"ended with code -9|Broken pipe|reset"):
        zygote.ask({"wait": 1, "seconds": 0})
    zygote.close()
    zygote.close()


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(zygote):
    pid = forked(zygote, "a", seconds=90)
    zygote.control.settimeout(0.05)
    with pytest.raises(TimeoutError):
        zygote.ask({"wait": pid, "seconds": 1})
    zygote.control.settimeout(30)
    with pytest.raises(OSError, match=r"^it ended|Broken pipe"):
        zygote.ask({"wait": pid, "seconds": 0})
    os.kill(pid, 9)
