"""A run of a study as a task of a cluster, with something in the place of Ray."""

import study_stub
from dph.jobs.job import Job
from dph.study import execute as execution
from dph.study import ray_jobs
from dph.study.row_files import read_row_files
from fake_ray import FakeRay


def test_a_run_leaves_its_row(monkeypatch, tmp_path):
    monkeypatch.setattr(execution, "execute", study_stub.execute)
    monkeypatch.setattr(ray_jobs, "connected_ray", FakeRay)
    jobs = ray_jobs.study_ray_jobs(None)
    places = {name: str(tmp_path / name) for name in ("work", "rows", "costs")}
    site = {"name": "sql-1", "edition": 1}
    payload = {"kind": "run", "run": "a", "training": "a", "site": site, "seed": 0} | places
    jobs.start(Job("a", payload))
    ended = jobs.wait()
    assert (ended.id, ended.error) == ("a", "")
    assert set(read_row_files(tmp_path / "rows")) == {"a"}
