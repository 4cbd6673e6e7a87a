"""Children forked by a process that has imported what they need."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from dph._processes.jobs.cores import CoreJobs
from dph._processes.jobs.processes import Forked, Job
from dph.errors import StageError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")


@pytest.fixture
def make(tmp_path, monkeypatch):
    made = []
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(code, capacity=1, **options):
        (tmp_path / "zygote_entry.py").write_text(code)
        log = tmp_path / "logs"
        made.append(
            CoreJobs(
                capacity,
                lambda job: log / job,
                entry="zygote_entry:work",
                start_by=Forked,
                **options,
            )
        )
        return made[-1]

    yield make
    for jobs in made:
        jobs.close()


def told(make, code, count=1):
    """What so many jobs, one after the other, printed."""
    lines = []
    jobs = make(code, on_line=lambda _, line: lines.append(line))
    for number in range(count):
        jobs.start(Job(f"j{number}", {"number": number}))
        assert jobs.wait().error == ""
    return lines


IMPORTED = """
import os
WHO = os.getpid()
SEEN = []
def work(payload):
    SEEN.append(payload["number"])
    print(WHO, os.getpid(), os.getsid(0), SEEN)
"""


def test_the_entry_is_imported_once_and_every_job_has_a_process_as_after_the_import(make):
    first, second = (line.split(maxsplit=3) for line in told(make, IMPORTED, 2))
    assert first[0] == second[0]  # who imported
    assert first[1] != second[1]
    assert first[1] == first[2]  # leads a session of its own, which can be killed whole
    assert (first[3], second[3]) == ("[0]", "[1]")


THREADS = """
from pathlib import Path
from dph.quickstart import run
from lab.study import execute
NAMES = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
def work(payload):
    print(len(NAMES) - NAMES.count("jemalloc_bg_thd"))
"""


@pytest.mark.slow
def test_what_the_runs_of_a_study_import_starts_no_thread(make):
    """Locks that other threads hold would stay locked in what is forked.

    pyarrow's jemalloc has a thread of its own, and hooks that prepare it for forks.
    """
    assert told(make, THREADS) == ["1"]


def test_open_files_of_one_child_are_not_those_of_the_next(make):
    code = "import os\ndef work(payload):\n    print(len(os.listdir('/proc/self/fd')))\n"
    lines = []
    jobs = make(code, 2, on_line=lambda _, line: lines.append(line))
    for number in range(2):
        jobs.start(Job(f"j{number}", {}))
    assert {jobs.wait().error, jobs.wait().error} == {""}
    assert lines[0] == lines[1] == "4"  # three streams, and the directory that is listed


SLEEPS = """
import time
def work(payload):
    time.sleep(payload["seconds"])
"""


def test_children_of_a_zygote_that_was_killed_are_killed_and_the_next_has_a_new_one(make):
    jobs = make(SLEEPS)
    jobs.start(Job("a", {"seconds": 600}))
    child = jobs._running["a"]
    os.kill(child._zygote.process.pid, signal.SIGKILL)
    assert "exited with code" in jobs.wait().error
    jobs.start(Job("b", {"seconds": 0}))
    assert jobs.wait().error == ""
    assert not Path(f"/proc/{child.pid}/exe").exists()


def test_a_zygote_that_is_killed_before_it_forks_starts_nothing_and_says_so(make):
    jobs = make("import time\ntime.sleep(600)\n")
    jobs.prepare()
    killer = threading.Timer(0.5, jobs._starter._zygote.process.kill)
    killer.start()
    with pytest.raises(StageError, match="no process could be started"):
        jobs.start(Job("a", {}))
    killer.join()
    jobs.close()  # there is nothing to kill


def test_a_child_that_is_killed_says_by_what(make):
    jobs = make(SLEEPS)
    jobs.start(Job("a", {"seconds": 600}))
    os.kill(jobs._running["a"].pid, signal.SIGKILL)
    assert "exited with code -9" in jobs.wait().error


def test_to_prepare_twice_is_to_prepare_once(make):
    jobs = make(SLEEPS)
    jobs.prepare()
    zygote = jobs._starter._zygote
    jobs.prepare()
    jobs.start(Job("a", {"seconds": 0}))
    assert jobs.wait().error == ""
    assert jobs._starter._zygote is zygote
