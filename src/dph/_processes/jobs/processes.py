"""Start children: as fresh processes, or forked from one that has imported what they need."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Protocol

from dph._base.import_path import search_path
from dph._processes.jobs.zygote import STREAMS
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


_CHANNEL_CLOSED = -1
"""The code of children whose zygote ended before them."""


class Child(Protocol):
    """A process that does a job; ``subprocess.Popen`` is one."""

    @property
    def pid(self) -> int:
        """Its number, which is also its group's."""
        ...

    @property
    def stdin(self) -> IO[bytes] | None:
        """Stream for the child's job; the child ends when it is closed."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """Output of the child, if somebody reads it."""
        ...

    @property
    def returncode(self) -> int | None:
        """Exit code, as ``poll`` last saw it."""
        ...

    def poll(self) -> int | None:
        """Exit code; None while it runs."""
        ...

    def wait(self) -> int:
        """Wait until it has ended, and say how."""
        ...

    def terminate(self) -> None:
        """Ask it to end."""
        ...


class Starter(Protocol):
    """Something that starts children which call one function."""

    def prepare(self) -> None:
        """Begin the work that the first child would have to wait for."""
        ...

    def start(self, *, stderr: IO[bytes], read: bool) -> Child:
        """Start a child; ``read`` its standard output, or let nobody see it."""
        ...

    def close(self) -> None:
        """Start no more."""
        ...


def starter(entry: str) -> Starter:
    """Starter of children that call ``entry`` (``module:function``) here.

    Only Linux is known to fork well after numerical libraries were imported.
    """
    return Forked(entry) if sys.platform == "linux" else Fresh(entry)


class Fresh:
    """Each child imports what it needs."""

    def __init__(self, entry: str) -> None:
        self._command = [sys.executable, "-P", "-m", "dph._processes.jobs.child", entry]

    def prepare(self) -> None:
        """There is nothing to prepare."""

    def start(self, *, stderr: IO[bytes], read: bool) -> Child:
        """Start a process in a separate session: Ctrl-C goes to its parent."""
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if read else subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
            env=_environment(),
        )

    def close(self) -> None:
        """There is nothing to close."""


class Forked:
    """Children of a zygote (``_processes.jobs.zygote``), which begins with the first of them."""

    def __init__(self, entry: str) -> None:
        self._command = [sys.executable, "-P", "-m", "dph._processes.jobs.zygote", entry]
        self._zygote: _Zygote | None = None

    def prepare(self) -> None:
        """Let the zygote import what children need, unless it has or does."""
        if self._zygote is not None and self._zygote.gone:
            self.close()
        if self._zygote is None:
            self._zygote = _Zygote(self._command)

    def start(self, *, stderr: IO[bytes], read: bool) -> Child:
        """Have a child forked.

        Raises:
            StageError: the zygote has ended, killed by somebody or by its machine.
        """
        self.prepare()
        assert self._zygote is not None
        return self._zygote.fork(stderr=stderr, read=read)

    def close(self) -> None:
        """End the zygote; children that still run end only as their standard input closes."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


class _Zygote:
    """The zygote as its parent sees it."""

    def __init__(self, command: list[str]) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                # Asking the driver for GPUs would spoil them for what is forked afterwards.
                env={**_environment(), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
            )
        self._unread = b""
        self.gone = False
        self.started: list[int] = []
        self.ended: dict[int, int] = {}

    def fork(self, *, stderr: IO[bytes], read: bool) -> "_ForkedChild":
        """Ask for a child and wait for its number."""
        job, said = os.pipe(), os.pipe() if read else None
        out = said[1] if said else os.open(os.devnull, os.O_WRONLY)
        try:
            streams = [job[0], out, stderr.fileno()]
            assert len(streams) == STREAMS
            with contextlib.suppress(BrokenPipeError):  # it is gone, which hearing says next
                socket.send_fds(self._channel, [b"1"], streams)
        finally:
            os.close(job[0])
            os.close(out)
        stdin, stdout = os.fdopen(job[1], "wb"), os.fdopen(said[0], "rb") if said else None
        while not self.started and not self.gone:
            self.hear(patience=None)
        if not self.started:
            for stream in filter(None, (stdin, stdout)):
                stream.close()
            raise StageError("no process could be started: the one that forks them has ended")
        return _ForkedChild(self, self.started.pop(), stdin, stdout)

    def hear(self, *, patience: float | None = 0.0) -> None:
        """Take in what it has said; wait for something for at most ``patience`` seconds."""
        while not self.gone and select.select([self._channel], [], [], patience)[0]:
            try:
                data = self._channel.recv(65536)
            except ConnectionResetError:  # it was killed before it had read all
                data = b""
            self.gone = not data
            *lines, self._unread = (self._unread + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            patience = 0.0

    def _take(self, said: dict[str, Any]) -> None:
        if "started" in said:
            self.started.append(said["started"])
        else:
            self.ended[said["ended"]] = said["code"]

    def close(self) -> None:
        """End it: it leaves when the channel closes."""
        self._channel.close()
        self._process.kill()  # also in the middle of an import
        self._process.wait()
        self.gone = True


class _ForkedChild:
    """A child of a zygote."""

    def __init__(
        self, zygote: _Zygote, pid: int, stdin: IO[bytes], stdout: IO[bytes] | None
    ) -> None:
        self._zygote = zygote
        self.pid = pid
        self.stdin: IO[bytes] | None = stdin
        self.stdout = stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Exit code; a child whose zygote is gone is killed, as nobody will hear of its end."""
        if self.returncode is None:
            self._zygote.hear()
            self.returncode = self._zygote.ended.pop(self.pid, None)
        if self.returncode is None and self._zygote.gone:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self.returncode = _CHANNEL_CLOSED
        return self.returncode

    def wait(self) -> int:
        """Wait until it has ended, and say how."""
        while (code := self.poll()) is None:
            self._zygote.hear(patience=1.0)
        return code

    def terminate(self) -> None:
        """Ask it to end."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": search_path(), "OMP_NUM_THREADS": "1"}
