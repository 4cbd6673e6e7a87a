"""Start children: as fresh processes, or forked from one that has imported what they need."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Protocol

from dph._processes.child import kill_group, start_child
from dph._processes.zygote import Zygote
from dph.errors import StageError

# Where work is done: something that takes jobs and says when one has ended.


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
        """Start a child; ``read`` its standard output, or let nobody see it.

        Raises:
            StageError: the zygote has ended, killed by somebody or by its machine.
        """
        self.prepare()
        assert self._zygote is not None
        job, said = os.pipe(), os.pipe() if read else None
        out = said[1] if said else os.open(os.devnull, os.O_WRONLY)
        stdin, stdout = os.fdopen(job[1], "wb"), os.fdopen(said[0], "rb") if said else None
        try:
            answer = self._zygote.ask({"start": "job"}, [job[0], out, stderr.fileno()])
        except OSError as error:
            for stream in filter(None, (stdin, stdout)):
                stream.close()
            raise StageError(
                "no process could be started: the one that forks them has ended"
            ) from error
        finally:
            os.close(job[0])
            os.close(out)
        return ForkedChild(self._zygote, answer["pid"], stdin, stdout)

    def close(self) -> None:
        """End the zygote; children that still run end only as their standard input closes."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


class ForkedChild:
    """A child of a zygote, as ``subprocess.Popen`` would have it.

    ``stdin`` is where its job is written, and the child ends when it is closed; ``stdout`` what it
    prints, if somebody reads it.
    """

    def __init__(
        self, zygote: Zygote, pid: int, stdin: IO[bytes], stdout: IO[bytes] | None
    ) -> None:
        self._zygote = zygote
        self.pid = pid
        self.stdin: IO[bytes] | None = stdin
        self.stdout = stdout
        self.returncode: int | None = None

    def poll(self, seconds: float = 0.0) -> int | None:
        """Its exit within this number of seconds; None while it runs.

        A child whose zygote is gone is killed, as nobody will hear of its end.
        """
        if self.returncode is None:
            try:
                message = {"wait": self.pid, "seconds": seconds}
                self.returncode = self._zygote.ask(message)["status"]
            except OSError:
                kill_group(self.pid)
                self.returncode = _ZYGOTE_GONE
        return self.returncode

    def wait(self) -> int:
        """Wait until it has ended, and say how."""
        while (code := self.poll(seconds=1.0)) is None:
            pass
        return code

    def terminate(self) -> None:
        """Ask it to end."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)


_ZYGOTE_GONE = -1
"""The code of children whose zygote ended before them."""
Child = subprocess.Popen[bytes] | ForkedChild
"""A process that does a job; its number is also its group's."""
Starter = Fresh | Forked
"""Starter of children that call one function."""


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}
