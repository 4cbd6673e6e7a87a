"""Programs that make a corpus, killed with SIGKILL and started again until one comes to its end."""

import os
import subprocess
import sys
import time
from pathlib import Path


def kill(program, words, *, once=None):
    """Kill it again and again, each time later, until it ends; or once, when that has a file."""
    if once is not None:
        assert _was_killed(program, words, lambda: any(p.is_file() for p in once.rglob("*")))
        assert not _was_killed(program, words, lambda: False)
        return
    kills, seconds = 0, 0.5
    while _was_killed(program, words, _after(seconds)):
        kills, seconds = kills + 1, 1.4 * seconds
    assert kills


def _after(seconds):
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def _was_killed(program, words, is_time):
    """Run it until it ends or ``is_time()``; whether it was still at work."""
    paths = os.pathsep.join([*filter(None, sys.path), str(Path(__file__).parent)])
    command = [sys.executable, "-c", program, *map(str, words)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}) as child:
        while child.poll() is None and not is_time():
            time.sleep(0.01)
        child.kill()
        was_killed = child.wait() != 0
    assert was_killed == (child.returncode < 0), child.returncode
    time.sleep(0.1)  # its workers end with it
    return was_killed
