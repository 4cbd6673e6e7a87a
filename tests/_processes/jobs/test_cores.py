"""Jobs as processes of this machine."""

import os
import subprocess
import sys
import time

import pytest

from dph._processes.jobs.cores import CoreJobs
from dph._processes.jobs.processes import Forked, Fresh, Job
from lab.study.rows import read_row_files


def payload(tmp_path, run):
    return {
        "kind": "run",
        "run": run,
        "training": run,
        "site": {"name": "sql"},
        "seed": 3,
        "work": str(tmp_path / "work"),
        "rows": str(tmp_path / "rows"),
        "costs": str(tmp_path / "costs"),
    }


@pytest.fixture(params=[Fresh, Forked])
def make(request, tmp_path):
    """Makes children of an entry, started by either way."""
    made = []

    def make(entry, capacity=1, **options):
        logs = tmp_path / "logs"
        made.append(
            CoreJobs(
                capacity,
                lambda job: logs / f"{job}.log",
                entry=entry,
                start_by=request.param,
                **options,
            )
        )
        return made[-1]

    yield make
    for jobs in made:
        jobs.close()


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
from dph._processes.jobs.processes import Forked, Fresh
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
