"""What all child processes have in common."""

import os
import subprocess
import sys
import time

import pytest

from dph._processes.child import kill_group, start_child
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


def test_a_child_imports_what_its_parent_can_and_has_no_other_environment(start):
    child = start()
    assert child.stdout.readline() == b"True None 45\n"


def test_it_ends_once_nobody_can_write_to_it(start):
    child = start()
    child.stdout.readline()
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
