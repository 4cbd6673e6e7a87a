import pytest

from dph._processes.jobs import CoreJobs, Job

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
