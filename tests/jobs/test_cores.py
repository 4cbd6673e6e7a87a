"""Jobs as processes of this machine."""

import os
import subprocess
import sys
import time

import pytest

from dph.jobs.cores import CoreJobs
from dph.jobs.job import Job
from dph.study.row_files import read_row_files


def payload(tmp_path, run):
    return {
        "kind": "run",
        "run": run,
        "training": run,
        "site": {"name": "sql-1", "edition": 1},
        "seed": 3,
        "work": str(tmp_path / "work"),
        "rows": str(tmp_path / "rows"),
        "costs": str(tmp_path / "costs"),
    }


@pytest.fixture
def jobs(tmp_path):
    made = CoreJobs(
        2, lambda job: tmp_path / "logs" / f"{job}.log", entry="none", module="study_stub"
    )
    yield made
    made.close()


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
from pathlib import Path
from dph.jobs.cores import CoreJobs
from dph.jobs.job import Job
jobs = CoreJobs(1, lambda job: Path(sys.argv[1]) / job, entry="none", module="study_sleeper")
jobs.start(Job("a", {}))
print(jobs._running["a"].pid, flush=True)
jobs.wait()
"""


def test_a_child_ends_with_its_parent_however_that_ended(tmp_path):
    (tmp_path / "study_sleeper.py").write_text(
        "import os, time, threading\n"
        "from dph.jobs.child import _end_with_the_parent, _first_line\n"
        "_first_line()\n"
        "threading.Thread(target=_end_with_the_parent, daemon=True).start()\n"
        "time.sleep(600)\n"
    )
    search = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(tmp_path)],
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


def test_what_children_print_is_handed_on_line_by_line_before_they_have_ended(tmp_path):
    lines = []
    jobs = CoreJobs(
        2,
        lambda job: tmp_path / f"{job}.log",
        entry="json:dumps",  # called with the payload; it prints nothing
        on_line=lambda job, line: lines.append((job, line)),
    )
    jobs.start(Job("quiet", {}))
    assert jobs.wait().error == ""
    assert lines == []
    jobs = CoreJobs(
        2,
        lambda job: tmp_path / f"{job}.log",
        entry="builtins:print",
        on_line=lambda job, line: lines.append((job, line)),
    )
    jobs.start(Job("a", {"x": 1}))
    jobs.start(Job("b", {"y": 2}))
    assert {jobs.wait().error, jobs.wait().error} == {""}
    assert sorted(lines) == [("a", "{'x': 1}"), ("b", "{'y': 2}")]


def test_a_child_that_was_given_something_bad_says_so(tmp_path):
    jobs = CoreJobs(1, lambda job: tmp_path / f"{job}.log", entry="dph.settings:load_recipe")
    jobs.start(Job("a", {"not": "a path"}))
    assert not jobs.wait().bad_input  # a TypeError is our fault
    jobs = CoreJobs(1, lambda job: tmp_path / f"{job}.log", entry="dph.settings:resolve_recipe")
    jobs.start(Job("b", {"method": "nothing"}))
    ended = jobs.wait()
    assert ended.bad_input
    assert "nothing" in ended.error


def test_who_listens_badly_is_told_of_and_the_child_goes_on(tmp_path):
    def broken(job, line):
        raise ValueError(f"{job}: {line}")

    jobs = CoreJobs(1, lambda job: tmp_path / f"{job}.log", entry="builtins:print", on_line=broken)
    jobs.start(Job("a", {}))
    process = jobs._running["a"]
    with pytest.raises(ValueError, match=r"a: \{\}"):
        jobs.wait()
    assert process.returncode == 0


@pytest.mark.slow
def test_the_real_child_says_what_went_wrong_in_its_last_line(tmp_path):
    jobs = CoreJobs(1, lambda job: tmp_path / f"{job}.log", entry="dph.study.execute:execute")
    jobs.start(Job("a", {"kind": "run", "work": str(tmp_path), "training": "t"}))
    assert jobs.wait().error.startswith("unexpected KeyError: ")
    jobs.close()
