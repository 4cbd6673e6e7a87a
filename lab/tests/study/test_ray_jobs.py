"""Runs of a study as tasks of a cluster: something in the place of Ray, and Ray where it is."""

import importlib.util

import pytest

import study_stub
from dph._processes.jobs.processes import Job
from fake_ray import FakeRay
from lab.study import execute as execution
from lab.study import runner
from lab.study.rows import read_row_files, read_rows
from lab.tests.study.test_real import finish, study_in


def test_a_run_leaves_its_row(monkeypatch, tmp_path):
    monkeypatch.setattr(execution, "execute", study_stub.execute)
    monkeypatch.setattr(runner, "connected_ray", FakeRay)
    jobs = runner.study_ray_jobs(None)
    places = {name: str(tmp_path / name) for name in ("work", "rows", "costs")}
    site = {"name": "sql"}
    payload = {"kind": "run", "run": "a", "training": "a", "site": site, "seed": 0} | places
    jobs.start(Job("a", payload))
    ended = jobs.wait()
    assert (ended.id, ended.error) == ("a", "")
    assert set(read_row_files(tmp_path / "rows")) == {"a"}


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs Ray: `make test-verl` runs this"
)
def test_two_workers_of_ray_end_a_study_with_the_bytes_of_two_cores(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    here = finish(*study_in(tmp_path / "here"))
    planner, places = study_in(tmp_path / "there")
    try:
        there = finish(planner, places, runner.study_ray_jobs(2))
    finally:
        importlib.import_module("ray").shutdown()
    assert len(read_rows(places)) == 7  # of 7: base, grpo, two strengths; of 8: one
    assert there == here
