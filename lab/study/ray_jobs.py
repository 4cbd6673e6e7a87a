"""Runs of a study on a Ray cluster. Its directory must lie where every machine can write."""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from dph._base.import_path import search_path
from dph._processes.jobs import Job, JobEnd
from dph.errors import DphError, SettingsError


class Jobs(Protocol):
    """Runs at most ``capacity`` jobs at a time."""

    @property
    def capacity(self) -> int:
        """Number of jobs at a time."""
        ...

    def start(self, job: Job) -> None:
        """Begin a job; there is room for it."""
        ...

    def wait(self) -> JobEnd:
        """Wait until one of the jobs has ended."""
        ...

    def close(self) -> None:
        """End what is still running: at once, and without anything half-written."""
        ...


def connected_ray() -> Any:
    """The module ``ray``, connected to the cluster of ``RAY_ADDRESS``, or to one made here.

    The workers of one that is made here find what this process finds; those of a cluster find
    what was installed there.
    """
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise SettingsError(
            "--engine ray needs Ray, which is not installed: run `pip install ray`, or use "
            "--engine cores"
        ) from error
    if not ray.is_initialized():
        found = "RAY_ADDRESS" in os.environ
        here = {} if found else {"env_vars": {"PYTHONPATH": search_path()}}
        ray.init(log_to_driver=False, runtime_env=here)
    return ray


class RayJobs:
    """One task of one CPU a job.

    Args:
        capacity: jobs at a time [default: as many as the cluster has CPUs].
        ray: the module, or something that behaves like it.
        execute: what a task does with a job's payload; a function of a module, which the machines
            of the cluster import.
    """

    def __init__(
        self, capacity: int | None, ray: Any, execute: Callable[[dict[str, Any]], None]
    ) -> None:
        self._ray = ray
        self.capacity = capacity or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task = ray.remote(num_cpus=1, max_retries=0, max_calls=1)(execute)
        self._running: dict[Any, str] = {}

    def start(self, job: Job) -> None:
        """Hand a job to the cluster."""
        self._running[self._task.remote(dict(job.payload))] = job.id

    def wait(self) -> JobEnd:
        """The next task that has ended; an error in a line, where Ray's has the whole traceback."""
        done, _ = self._ray.wait(list(self._running), num_returns=1)
        name = self._running.pop(done[0])
        try:
            self._ray.get(done[0])
        except Exception as error:  # noqa: BLE001 - whatever a task raised is the run's failure
            cause = getattr(error, "cause", None) or error
            text = " ".join(str(cause).split())
            known = isinstance(cause, DphError)
            return JobEnd(name, text if known else f"{type(cause).__name__}: {text}")
        return JobEnd(name, "")

    def close(self) -> None:
        """Cancel all tasks, by force: what they wrote is whole or not there."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
