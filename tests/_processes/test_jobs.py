import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from dph._processes.jobs import CoreJobs, Job, Starter
from dph.errors import StageError


@pytest.fixture
def core_jobs(tmp_path, monkeypatch):
    """Makes jobs on cores whose children, of an entry, are started in a way; closes them all."""
    made = []
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(entry, forks, capacity=1, **more):
        logs = tmp_path / "logs"
        more |= {"entry": entry, "start_by": partial(Starter, forks=forks)}
        made.append(CoreJobs(capacity, lambda job: logs / f"{job}.log", **more))
        return made[-1]

    yield make
    for jobs in made:
        jobs.close()


@pytest.fixture(params=[False, True], ids=["fresh", "forked"])
def make(request, core_jobs):
    return lambda entry, *capacity, **more: core_jobs(entry, request.param, *capacity, **more)


@pytest.fixture
def fork(core_jobs, tmp_path):
    def fork(code, *capacity, **more):
        (tmp_path / "zygote_entry.py").write_text(code)
        return core_jobs("zygote_entry:work", True, *capacity, **more)

    return fork


WORK = """
import time
from functools import partial
from pathlib import Path
def work(payload):
    if payload.get("fails"):
        raise RuntimeError("it was told to fail")
    Path(payload["file"]).write_text("done")
    time.sleep(payload.get("seconds", 0))
"""


@pytest.fixture
def jobs(make, tmp_path):
    (tmp_path / "small_entry.py").write_text(WORK)
    return make("small_entry:work", 2)


def test_a_job_that_does_its_work_leaves_no_log_and_one_that_fails_says_where_it_is(jobs, tmp_path):
    for name in "ab":
        jobs.start(Job(name, {"file": str(tmp_path / name)}))
    assert {jobs.wait().id, jobs.wait().id} == {"a", "b"}
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "done"
    assert list((tmp_path / "logs").iterdir()) == []
    jobs.start(Job("bad", {"fails": True}))
    with pytest.raises(TimeoutError):
        jobs.wait(until=time.monotonic())
    error = jobs.wait().error
    assert error.startswith("unexpected RuntimeError: it was told to fail (")
    assert error.endswith("logs/bad.log)")


def test_closing_kills_what_runs(jobs, tmp_path):
    jobs.start(Job("a", {"file": str(tmp_path / "a"), "seconds": 600}))
    process = jobs._running["a"]
    jobs.close()
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


SLEEPER = """
import sys
from functools import partial
from pathlib import Path
from dph._processes.jobs import CoreJobs, Job, Starter
jobs = CoreJobs(1, lambda job: Path(sys.argv[1]) / job, entry="time:sleep",
                start_by=partial(Starter, forks=sys.argv[2] == "forked"))
jobs.start(Job("a", 600))
print(jobs._running["a"].pid, flush=True)
jobs.wait()
"""


@pytest.mark.parametrize("way", ["fresh", "forked"])
def test_a_child_ends_with_its_parent_however_that_ended(way, tmp_path):
    search = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(tmp_path), way],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": search},
    ) as parent:
        child = int(parent.stdout.readline())
        os.kill(child, 0)
        parent.kill()
    for _ in range(300):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("the child outlived its parent by half a minute")


def test_what_children_print_is_handed_on_line_by_line_before_they_have_ended(make):
    lines = []
    # Called with the payload; it prints nothing.
    jobs = make("json:dumps", 2, on_line=lambda job, line: lines.append((job, line)))
    jobs.start(Job("quiet", {}))
    assert jobs.wait().error == ""
    assert lines == []
    jobs = make("builtins:print", 2, on_line=lambda job, line: lines.append((job, line)))
    jobs.start(Job("a", {"x": 1}))
    jobs.start(Job("b", {"y": 2}))
    assert {jobs.wait().error, jobs.wait().error} == {""}
    assert sorted(lines) == [("a", "{'x': 1}"), ("b", "{'y': 2}")]


def test_a_child_that_was_given_something_bad_says_so(make):
    jobs = make("dph.recipe:load_recipe")
    jobs.start(Job("a", {"not": "a path"}))
    assert not jobs.wait().bad_input  # a TypeError is our fault
    jobs = make("dph.recipe:resolve_recipe")
    jobs.start(Job("b", {"method": "nothing"}))
    ended = jobs.wait()
    assert ended.bad_input
    assert "nothing" in ended.error


def test_who_listens_badly_is_told_of_and_the_child_goes_on(make):
    def broken(job, line):
        raise ValueError(f"{job}: {line}")

    jobs = make("builtins:print", on_line=broken)
    jobs.start(Job("a", {}))
    process = jobs._running["a"]
    with pytest.raises(ValueError, match=r"a: \{\}"):
        jobs.wait()
    assert process.returncode == 0


def test_an_entry_that_cannot_be_imported_is_the_reason_of_every_child(make):
    jobs = make("dph.nowhere:nothing", 2)
    jobs.start(Job("a", {}))
    jobs.start(Job("b", {}))
    assert {jobs.wait().error.split(" (")[0] for _ in range(2)} == {
        "unexpected ModuleNotFoundError: No module named 'dph.nowhere'"
    }


def printed_by(fork, code, count=1):
    lines = []
    jobs = fork(code, on_line=lambda _, line: lines.append(line))
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


def test_the_entry_is_imported_once_and_every_job_has_a_process_as_after_the_import(fork):
    first, second = (line.split(maxsplit=3) for line in printed_by(fork, IMPORTED, 2))
    assert first[0] == second[0]  # who imported
    assert first[1] != second[1]
    assert first[1] == first[2]  # leads a session of its own, which can be killed whole
    assert (first[3], second[3]) == ("[0]", "[1]")


def test_open_files_of_one_child_are_not_those_of_the_next(fork):
    code = "import os\ndef work(payload):\n    print(len(os.listdir('/proc/self/fd')))\n"
    lines = []
    jobs = fork(code, 2, on_line=lambda _, line: lines.append(line))
    for number in range(2):
        jobs.start(Job(f"j{number}", {}))
    assert {jobs.wait().error, jobs.wait().error} == {""}
    assert lines[0] == lines[1] == "4"  # three streams, and the directory that is listed


SLEEPS = """
import time
def work(payload):
    time.sleep(payload["seconds"])
"""


def test_children_of_a_zygote_that_was_killed_are_killed_and_the_next_has_a_new_one(fork):
    jobs = fork(SLEEPS)
    jobs.start(Job("a", {"seconds": 600}))
    child = jobs._running["a"]
    os.kill(child._zygote.process.pid, signal.SIGKILL)
    assert "exited with code" in jobs.wait().error
    jobs.start(Job("b", {"seconds": 0}))
    assert jobs.wait().error == ""
    assert not Path(f"/proc/{child.pid}/exe").exists()


def test_a_zygote_that_is_killed_before_it_forks_starts_nothing_and_says_so(fork):
    jobs = fork("import time\ntime.sleep(600)\n")
    killer = threading.Timer(0.5, lambda: jobs._starter._zygote.process.kill())
    killer.start()
    with pytest.raises(StageError, match="no process could be started"):
        jobs.start(Job("a", {}))
    killer.join()
    jobs.close()  # there is nothing to kill
