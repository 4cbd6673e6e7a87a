"""Jobs on a Ray cluster. What they read and write must lie where every machine of it can."""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from dph._base.import_path import search_path
from dph._processes.jobs.processes import Ended, Job
from dph.errors import DphError, SettingsError


def connected_ray() -> Any:
    """The module ``ray``, connected to the cluster of ``RAY_ADDRESS``, or to one made here.

    The workers of one that is made here find what this process finds; those of a cluster find
    what was installed there.

    Raises:
        SettingsError: Ray is not installed.
    """
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise SettingsError(
            "--engine ray needs Ray, which is not installed: `pip install ray`, or the engine cores"
        ) from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False, runtime_env=_surroundings())
    return ray


def _surroundings() -> dict[str, Any]:
    if "RAY_ADDRESS" in os.environ:
        return {}
    return {"env_vars": {"PYTHONPATH": search_path()}}


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
        self._capacity = capacity or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task = ray.remote(num_cpus=1, max_retries=0, max_calls=1)(execute)
        self._running: dict[Any, str] = {}

    @property
    def capacity(self) -> int:
        """As many as were asked for, or as the cluster has CPUs."""
        return self._capacity

    def start(self, job: Job) -> None:
        """Hand a job to the cluster."""
        self._running[self._task.remote(dict(job.payload))] = job.id

    def wait(self) -> Ended:
        """The next task that has ended."""
        done, _ = self._ray.wait(list(self._running), num_returns=1)
        name = self._running.pop(done[0])
        try:
            self._ray.get(done[0])
        except Exception as error:  # noqa: BLE001 - whatever a task raised is the run's failure
            return Ended(name, _reason(getattr(error, "cause", None) or error))
        return Ended(name, "")

    def close(self) -> None:
        """Cancel all tasks, by force: what they wrote is whole or not there."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()


def _reason(error: BaseException) -> str:
    """What the task itself raised, in a line; Ray's own error would be the whole traceback."""
    text = " ".join(str(error).split())
    return text if isinstance(error, DphError) else f"{type(error).__name__}: {text}"
