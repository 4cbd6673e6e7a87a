"""Jobs on a cluster, with something in the place of Ray; with Ray itself where it is installed."""

import importlib

import pytest

import study_stub
from dph.errors import SettingsError
from dph.jobs.job import Job
from dph.study import execute as execution
from dph.study import ray_jobs
from dph.study.ray_jobs import RayJobs, connected_ray
from dph.study.row_files import read_row_files


class FakeRay:
    """Does a task when it is asked for; ``options`` are what tasks were made with."""

    def __init__(self):
        self.options, self.results, self.cancelled = {}, {}, []

    def cluster_resources(self):
        return {"CPU": 3.0}

    def remote(self, **options):
        self.options = options

        def decorate(function):
            class Task:
                @staticmethod
                def remote(payload):
                    reference = f"ref-{len(self.results)}"
                    self.results[reference] = (function, payload)
                    return reference

            return Task

        return decorate

    def wait(self, references, *, num_returns):
        return references[:num_returns], references[num_returns:]

    def get(self, reference):
        function, payload = self.results[reference]
        return function(payload)

    def cancel(self, reference, *, force):
        self.cancelled.append((reference, force))


@pytest.fixture
def stubbed(monkeypatch):
    monkeypatch.setattr(execution, "execute", study_stub.execute)
    return FakeRay()


def job(tmp_path, run):
    places = {name: str(tmp_path / name) for name in ("work", "rows", "costs")}
    site = {"name": "sql-1", "edition": 1}
    return Job(run, {"kind": "run", "run": run, "training": run, "site": site, "seed": 0} | places)


def test_a_task_takes_one_cpu_is_never_retried_and_leaves_its_row(stubbed, tmp_path):
    jobs = RayJobs(None, stubbed)
    assert jobs.capacity == 3
    assert stubbed.options == {"num_cpus": 1, "max_retries": 0, "max_calls": 1}
    jobs.start(job(tmp_path, "a"))
    ended = jobs.wait()
    assert (ended.id, ended.error) == ("a", "")
    assert set(read_row_files(tmp_path / "rows")) == {"a"}


def test_what_a_task_raises_is_the_reason(stubbed, monkeypatch, tmp_path):
    def fail(_payload):
        raise RuntimeError("no\ndisk")

    monkeypatch.setattr(execution, "execute", fail)
    jobs = RayJobs(5, stubbed)
    assert jobs.capacity == 5
    jobs.start(job(tmp_path, "a"))
    assert jobs.wait().error == "RuntimeError: no disk"


def test_closing_cancels_by_force(stubbed, tmp_path):
    jobs = RayJobs(2, stubbed)
    jobs.start(job(tmp_path, "a"))
    jobs.close()
    assert stubbed.cancelled == [("ref-0", True)]


def test_without_ray_one_message_says_what_to_do(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(ray_jobs, "import_module", missing)
    with pytest.raises(SettingsError, match="--engine ray needs Ray, which is not installed"):
        connected_ray()
    assert importlib.import_module is not missing
