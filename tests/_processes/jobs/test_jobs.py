import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dph._processes.jobs import cores as ray_jobs
from dph._processes.jobs.child import PARENT
from dph._processes.jobs.cores import CoreJobs, RayJobs, connected_ray
from dph._processes.jobs.processes import Forked, Fresh, Job
from dph.errors import SettingsError, StageError
from fake_ray import FakeRay
from lab.study.rows import read_row_files


def payload(tmp_path, run):
    places = {name: str(tmp_path / name) for name in ("work", "rows", "costs")}
    return {
        "kind": "run",
        "run": run,
        "training": run,
        "site": {"name": "sql"},
        "seed": 3,
        **places,
    }


@pytest.fixture
def core_jobs(tmp_path, monkeypatch):
    """Makes jobs on cores whose children, of an entry, are started in a way; closes them all."""
    made = []
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(entry, way, capacity=1, **more):
        logs = tmp_path / "logs"
        more |= {"entry": entry, "start_by": way}
        made.append(CoreJobs(capacity, lambda job: logs / f"{job}.log", **more))
        return made[-1]

    yield make
    for jobs in made:
        jobs.close()


@pytest.fixture(params=[Fresh, Forked])
def make(request, core_jobs):
    return lambda entry, *capacity, **more: core_jobs(entry, request.param, *capacity, **more)


@pytest.fixture
def fork(core_jobs, tmp_path):
    def fork(code, *capacity, **more):
        (tmp_path / "zygote_entry.py").write_text(code)
        return core_jobs("zygote_entry:work", Forked, *capacity, **more)

    return fork


@pytest.fixture
def jobs(make):
    return make("study_stub:work", 2)


def test_a_job_that_does_its_work_leaves_a_row_and_no_log(jobs, tmp_path):
    jobs.start(Job("a", payload(tmp_path, "a")))
    jobs.start(Job("b", payload(tmp_path, "b")))
    assert {jobs.wait().id, jobs.wait().id} == {"a", "b"}
    assert set(read_row_files(tmp_path / "rows")) == {"a", "b"}
    assert list((tmp_path / "logs").iterdir()) == []


def test_a_job_that_fails_says_its_last_line_and_where_the_log_is(jobs, tmp_path, monkeypatch):
    monkeypatch.setenv("STUDY_STUB_FAILS", "bad")
    jobs.start(Job("bad", payload(tmp_path, "bad")))
    ended = jobs.wait()
    assert ended.error.startswith("the stub was told to fail (")
    assert ended.error.endswith("logs/bad.log)")


def test_closing_kills_what_runs(jobs, tmp_path):
    jobs.start(Job("a", payload(tmp_path, "a")))
    process = jobs._running["a"]
    jobs.close()
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


SLEEPER = """
import sys
from dph._processes.jobs import processes
from pathlib import Path
from dph._processes.jobs.cores import CoreJobs
from dph._processes.jobs.processes import Job
jobs = CoreJobs(1, lambda job: Path(sys.argv[1]) / job, entry="time:sleep",
                start_by=getattr(processes, sys.argv[2]))
jobs.start(Job("a", 600))
print(jobs._running["a"].pid, flush=True)
jobs.wait()
"""


@pytest.mark.parametrize("way", ["Fresh", "Forked"])
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


@pytest.mark.slow
def test_the_real_child_says_what_went_wrong_in_its_last_line(make, tmp_path):
    jobs = make("lab.study.execute:execute")
    jobs.start(Job("a", {"kind": "run", "work": str(tmp_path), "training": "t"}))
    assert jobs.wait().error.startswith("unexpected KeyError: ")


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


THREADS = """
from pathlib import Path
from dph.quickstart import run
from lab.study import execute
NAMES = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
def work(payload):
    print(len(NAMES) - NAMES.count("jemalloc_bg_thd"))
"""


@pytest.mark.slow
def test_what_the_runs_of_a_study_import_starts_no_thread(fork):
    """Locks that other threads hold would stay locked in what is forked.

    pyarrow's jemalloc has a thread of its own, and hooks that prepare it for forks.
    """
    assert printed_by(fork, THREADS) == ["1"]


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
    jobs.prepare()
    killer = threading.Timer(0.5, jobs._starter._zygote.process.kill)
    killer.start()
    with pytest.raises(StageError, match="no process could be started"):
        jobs.start(Job("a", {}))
    killer.join()
    jobs.close()  # there is nothing to kill


def test_a_task_takes_one_cpu_is_never_retried_and_is_cancelled_by_force():
    seen, ray = [], FakeRay()
    jobs = RayJobs(None, ray, seen.append)
    assert jobs.capacity == 3
    assert ray.options == {"num_cpus": 1, "max_retries": 0, "max_calls": 1}
    jobs.start(Job("a", {"n": 1}))
    ended = jobs.wait()
    assert (ended.id, ended.error, seen) == ("a", "", [{"n": 1}])
    ray = FakeRay()
    jobs = RayJobs(2, ray, print)
    jobs.start(Job("a", {}))
    jobs.close()
    assert ray.cancelled == [("ref-0", True)]


def test_what_a_task_raises_is_the_reason_and_without_ray_one_message_says_what_to_do(monkeypatch):
    def fail(_payload):
        raise RuntimeError("no\ndisk")

    jobs = RayJobs(5, FakeRay(), fail)
    assert jobs.capacity == 5
    jobs.start(Job("a", {}))
    assert jobs.wait().error == "RuntimeError: no disk"

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(ray_jobs, "import_module", missing)
    with pytest.raises(SettingsError, match="--engine ray needs Ray, which is not installed"):
        connected_ray()


WAITING = (
    "from dph._processes.jobs.child import end_with_parent; import time; end_with_parent(); "
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
