"""A process ends with the one that its environment names."""

import os
import subprocess
import sys
import time

from dph._processes.jobs.child import PARENT

WAITING = (
    "from dph._processes.jobs.child import end_with_parent; import time; end_with_parent(); "
    "print('ready', flush=True); time.sleep(90)"
)


def waiting(parent):
    return subprocess.Popen(
        [sys.executable, "-c", WAITING],
        env={**os.environ, PARENT: parent},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_it_ends_once_the_other_is_gone():
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(90)"])
    process = waiting(str(other.pid))
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    assert process.poll() is None
    other.kill()
    other.wait()
    assert process.wait(timeout=60) != 0
    process.stdout.close()


def test_it_waits_for_nobody_where_nobody_is_named():
    process = waiting("")
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    assert process.poll() is None
    process.kill()
    process.wait()
    process.stdout.close()
