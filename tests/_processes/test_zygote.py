"""A zygote as its parent sees it: what is forked, how it ends, and when the zygote is gone."""

import os
import sys

import pytest

from dph._processes.zygote import Zygote

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")

SERVER = """
import os, socket, time
from dph._processes.zygote import ForkServer
class Forks(ForkServer):
    def play(self, message, descriptors):
        os.write(descriptors[0], message["start"].encode())
        time.sleep(message["seconds"])
        os._exit(message["code"])
if __name__ == "__main__":
    Forks(socket.socket(fileno=os.dup(0))).serve()
"""


@pytest.fixture
def zygote(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "small_zygote.py").write_text(SERVER)
    made = Zygote("small_zygote", env=os.environ)
    yield made
    made.close()
    assert made.process.returncode is not None


def start(zygote, said, seconds=0.0, code=0):
    ours, theirs = os.pipe()
    message = {"start": said, "seconds": seconds, "code": code}
    pid = zygote.ask(message, [theirs])["pid"]
    os.close(theirs)
    found = os.read(ours, 100)
    os.close(ours)
    assert found.decode() == said
    return pid


def test_children_get_their_descriptors_and_end_by_themselves(zygote):
    pids = [start(zygote, "a", code=3), start(zygote, "b")]
    assert len({zygote.process.pid, *pids}) == 3
    ends = [zygote.ask({"wait": pid, "seconds": 30})["status"] for pid in pids]
    assert ends == [3, 0]
    assert zygote.ask({"wait": pids[0], "seconds": 0})["status"] == 3  # however often it is asked


def test_a_child_that_runs_has_no_status_and_one_that_was_killed_that_of_the_signal(zygote):
    pid = start(zygote, "a", seconds=90)
    assert zygote.ask({"wait": pid, "seconds": 0.05})["status"] is None
    os.kill(pid, 9)
    assert zygote.ask({"wait": pid, "seconds": 30})["status"] == -9


def test_a_zygote_that_is_gone_is_an_error_that_says_how_it_ended(zygote):
    zygote.process.kill()
    with pytest.raises(OSError, match=r"ended with code -9|Broken pipe|reset"):
        zygote.ask({"wait": 1, "seconds": 0})
    zygote.close()
    zygote.close()


def test_it_ends_by_itself_when_nobody_can_ask_any_more(zygote):
    start(zygote, "a")
    zygote.close(patience=30)
    assert zygote.process.returncode == 0


def test_an_answer_that_comes_too_late_is_not_taken_for_the_next_one(zygote):
    pid = start(zygote, "a", seconds=90)
    zygote.control.settimeout(0.05)
    with pytest.raises(TimeoutError):
        zygote.ask({"wait": pid, "seconds": 1})
    zygote.control.settimeout(30)
    with pytest.raises(OSError, match=r"^it ended|Broken pipe"):
        zygote.ask({"wait": pid, "seconds": 0})
    os.kill(pid, 9)
