"""Jobs as processes of this machine, each killed with all that it started."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from dph._base.files import make_directory
from dph._base.import_path import search_path
from dph._processes.child import kill_group
from dph._processes.jobs.child import BAD_INPUT
from dph._processes.jobs.processes import Child, Job, JobEnd, Starter, starter
from dph.errors import DphError, SettingsError


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

    def wait(self) -> JobEnd:
        """The next task that has ended."""
        done, _ = self._ray.wait(list(self._running), num_returns=1)
        name = self._running.pop(done[0])
        try:
            self._ray.get(done[0])
        except Exception as error:  # noqa: BLE001 - whatever a task raised is the run's failure
            return JobEnd(name, _reason(getattr(error, "cause", None) or error))
        return JobEnd(name, "")

    def close(self) -> None:
        """Cancel all tasks, by force: what they wrote is whole or not there."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()


def _reason(error: BaseException) -> str:
    """Error of the task, in a line; Ray's own error would be the whole traceback."""
    text = " ".join(str(error).split())
    return text if isinstance(error, DphError) else f"{type(error).__name__}: {text}"


_LOOK_EVERY = 0.05
"""Seconds between looks at the processes; a run takes many of them."""
_TAIL = 4000
"""Characters at the end of a log that the reason of a failure is taken from."""


class CoreJobs:
    """At most ``capacity`` children that call ``entry`` (``module:function``) with a job's payload.

    ``log`` says where a job's stderr goes. ``on_line`` is told the job and each line that its
    child prints, from a thread for each child; ``wait`` returns a child after its last line.

    A child computes on one thread. What ``entry`` needs is imported once for all of them, and
    ``prepare`` begins with it before there is a job. A child's standard input stays open as long
    as this process lives: when it closes, however this process ended, the child ends too.
    """

    def __init__(
        self,
        capacity: int,
        log: Callable[[str], Path],
        *,
        entry: str,
        on_line: Callable[[str, str], None] | None = None,
        start_by: Callable[[str], Starter] = starter,
    ) -> None:
        self._capacity, self._log = capacity, log
        self._starter = start_by(entry)
        self._on_line = on_line
        self._running: dict[str, Child] = {}
        self._readers: dict[str, threading.Thread] = {}
        self._broken: Exception | None = None

    @property
    def capacity(self) -> int:
        """Number of children at a time."""
        return self._capacity

    def prepare(self) -> None:
        """Begin to import what children need, so that none of them waits for it."""
        self._starter.prepare()

    def start(self, job: Job) -> None:
        """Start a child."""
        path = self._log(job.id)
        make_directory(path.parent)
        with path.open("wb") as log:
            child = self._starter.start(stderr=log, read=self._on_line is not None)
        self._running[job.id] = child
        if self._on_line is not None:
            reader = threading.Thread(target=self._read, args=(job.id, child.stdout), daemon=True)
            self._readers[job.id] = reader
            reader.start()
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died already: waiting says so
            child.stdin.write(json.dumps(job.payload).encode("ascii") + b"\n")
            child.stdin.flush()

    def wait(self) -> JobEnd:
        """The next child that has ended."""
        while (ended := self.poll()) is None:
            time.sleep(_LOOK_EVERY)
        return ended

    def poll(self) -> JobEnd | None:
        """A child that has ended; None while all of them run."""
        for name, child in self._running.items():
            if (code := child.poll()) is not None:
                self._forget(name)
                if self._broken is not None:
                    raise self._broken
                if code == 0:
                    return JobEnd(name, "")
                return JobEnd(name, self._reason(name, code), bad_input=code == BAD_INPUT)
        return None

    def close(self, *, patience: float = 0.0) -> None:
        """Kill all children and what they started.

        With ``patience`` (seconds) they are asked to end by SIGTERM first.
        """
        until = time.monotonic() + patience
        if patience:
            for child in self._running.values():
                child.terminate()
        while time.monotonic() < until and any(c.poll() is None for c in self._running.values()):
            time.sleep(_LOOK_EVERY)
        for name in list(self._running):
            child = self._running[name]
            kill_group(child.pid)
            child.wait()
            self._forget(name)
        self._starter.close()

    def _read(self, name: str, stream: IO[bytes]) -> None:
        """Hand on what a child prints, to its end."""
        assert self._on_line is not None
        with stream:
            for line in stream:
                try:
                    self._on_line(name, line.decode("utf-8", errors="replace").rstrip("\n"))
                except Exception as error:  # noqa: BLE001 - not the child's fault: wait() raises it
                    self._broken = self._broken or error

    def _forget(self, name: str) -> None:
        child = self._running.pop(name)
        if name in self._readers:
            self._readers.pop(name).join()
        if child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
        if child.returncode == 0:
            self._log(name).unlink(missing_ok=True)

    def _reason(self, name: str, code: int) -> str:
        text = self._log(name).read_text(encoding="utf-8", errors="replace")[-_TAIL:].rstrip()
        last = text.splitlines()[-1] if text else f"it exited with code {code} without a message"
        return f"{last} ({self._log(name)})"
