"""Start children: as fresh processes, or forked from one that has imported what they need."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Protocol

from dph._processes.child import start_child
from dph._processes.zygote import ForkedChild, Zygote
from dph.errors import StageError


@dataclass(frozen=True, slots=True)
class Job:
    """``payload`` is JSON: all that whoever does the job needs, with absolute paths."""

    id: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobEnd:
    """A job that came to its end; ``error`` is '' where it did what it should.

    ``bad_input`` says that the error is one of what the job was given.
    """

    id: str
    error: str
    bad_input: bool = False


class Jobs(Protocol):
    """Runs several jobs at a time."""

    @property
    def capacity(self) -> int:
        """Number of children at a time."""
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


def starter(entry: str) -> "Starter":
    """Starter of children that call ``entry`` (``module:function``) here.

    Only Linux is known to fork well after numerical libraries were imported.
    """
    return Forked(entry) if sys.platform == "linux" else Fresh(entry)


class Fresh:
    """Each child imports what it needs."""

    def __init__(self, entry: str) -> None:
        self._entry = entry

    def prepare(self) -> None:
        """There is nothing to prepare."""

    def start(self, *, stderr: IO[bytes], read: bool) -> "Child":
        """Start a process in a separate session: Ctrl-C goes to its parent."""
        return start_child(
            "dph._processes.jobs.child",
            self._entry,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if read else subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )

    def close(self) -> None:
        """There is nothing to close."""


class Forked:
    """Children of a zygote (``_processes.jobs.zygote``), which begins with the first of them."""

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._zygote: Zygote | None = None

    def prepare(self) -> None:
        """Begin to import what the first child would have to wait for, unless that is done."""
        if self._zygote is not None and self._zygote.has_ended():
            self.close()
        if self._zygote is None:
            self._zygote = Zygote(
                "dph._processes.jobs.zygote",
                self._entry,
                # Asking the driver for GPUs would spoil them for what is forked afterwards.
                env={**_environment(), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
                start_new_session=True,
            )

    def start(self, *, stderr: IO[bytes], read: bool) -> "Child":
        """Start a child; ``read`` its standard output, or let nobody see it."""
        self.prepare()
        assert self._zygote is not None
        out = None if read else os.open(os.devnull, os.O_WRONLY)
        try:
            return self._zygote.fork({"start": "job"}, stdout=out, more=[stderr.fileno()])
        except OSError as error:
            raise StageError(
                "no process could be started: the one that forks them has ended"
            ) from error
        finally:
            if out is not None:
                os.close(out)

    def close(self) -> None:
        """End the zygote; children that still run end only as their standard input closes."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


Child = subprocess.Popen[bytes] | ForkedChild
"""A process that does a job; its number is also its group's."""
Starter = Fresh | Forked
"""Starter of children that call one function."""


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}
