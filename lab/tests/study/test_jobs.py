import pytest

from dph._processes.jobs import CoreJobs, Job
from dph.errors import SettingsError
from fake_ray import FakeRay
from lab.study import runner
from lab.study.runner import RayJobs, connected_ray


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

    monkeypatch.setattr(runner, "import_module", missing)
    with pytest.raises(SettingsError, match="--engine ray needs Ray, which is not installed"):
        connected_ray()


IMPORTED = """
from pathlib import Path
from lab.study import execute
NAMES = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
def work(payload):
    print(len(NAMES) - NAMES.count("jemalloc_bg_thd"))
"""


@pytest.fixture
def child(tmp_path, monkeypatch):
    """The end of a child that calls an entry, and the lines that it prints."""
    monkeypatch.syspath_prepend(str(tmp_path))
    lines = []

    def child(entry, payload):
        jobs = CoreJobs(
            1, tmp_path.joinpath, entry=entry, on_line=lambda _, line: lines.append(line)
        )
        jobs.start(Job("a", payload))
        try:
            return jobs.wait().error, lines
        finally:
            jobs.close()

    return child


@pytest.mark.slow
def test_a_run_says_what_went_wrong_in_its_last_line(child, tmp_path):
    error, _ = child("lab.study.execute:execute", {"kind": "run", "work": str(tmp_path)})
    assert error.startswith("unexpected KeyError: ")


@pytest.mark.slow
def test_what_runs_import_starts_no_thread_whose_locks_would_stay_locked_in_a_fork(child, tmp_path):
    """Pyarrow's jemalloc has a thread of its own, and hooks that prepare it for forks."""
    (tmp_path / "importing.py").write_text(IMPORTED)
    assert child("importing:work", {}) == ("", ["1"])
