"""Jobs on a cluster, with something in the place of Ray."""

import pytest

from dph._processes.jobs import cores as ray_jobs
from dph._processes.jobs.cores import RayJobs, connected_ray
from dph._processes.jobs.processes import Job
from dph.errors import SettingsError
from fake_ray import FakeRay


def test_a_task_takes_one_cpu_and_is_never_retried():
    seen, ray = [], FakeRay()
    jobs = RayJobs(None, ray, seen.append)
    assert jobs.capacity == 3
    assert ray.options == {"num_cpus": 1, "max_retries": 0, "max_calls": 1}
    jobs.start(Job("a", {"n": 1}))
    ended = jobs.wait()
    assert (ended.id, ended.error, seen) == ("a", "", [{"n": 1}])


def test_what_a_task_raises_is_the_reason():
    def fail(_payload):
        raise RuntimeError("no\ndisk")

    jobs = RayJobs(5, FakeRay(), fail)
    assert jobs.capacity == 5
    jobs.start(Job("a", {}))
    assert jobs.wait().error == "RuntimeError: no disk"


def test_closing_cancels_by_force():
    ray = FakeRay()
    jobs = RayJobs(2, ray, print)
    jobs.start(Job("a", {}))
    jobs.close()
    assert ray.cancelled == [("ref-0", True)]


def test_without_ray_one_message_says_what_to_do(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(ray_jobs, "import_module", missing)
    with pytest.raises(SettingsError, match="--engine ray needs Ray, which is not installed"):
        connected_ray()
