"""One child process of a WorkerPool, seen from the parent: start, exchange, kill."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO, Any

from dph._processes.child import ForkedChild, Zygote, kill_group, start_child

_READ = 65536
PATIENCE = 10
"""Longest time of a request in limits, on a machine that is too busy to run it."""
_SHORTEST_EXTENSION = 0.01


class ReplyKind(Enum):
    """End of a request."""

    OK = auto()
    ERROR = auto()
    """The handler raised."""
    TIMED_OUT = auto()
    CRASHED = auto()
    FAILED = auto()
    """The request was never run: no worker could be started, or the pool was closed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The handler's ``value``, or the ``reason`` why there is none.

    ``stage`` is the last stage that the handler told of, '' if it told of none. ``seconds`` is
    the time that the handler took, or had taken when its worker ended.
    """

    kind: ReplyKind
    value: Any = None
    reason: str = ""
    stage: str = ""
    seconds: float = 0.0


class WorkerProcess:
    """A child that runs ``python -m dph._processes.workers.child``, and the two pipes to it.

    ``zygote`` is a process of ``worker_zygote`` that forks the child; without one it is a fresh
    process. ``retires`` is false for one that is not replaced when it holds too much memory.
    """

    def __init__(
        self,
        handler: str,
        options: Mapping[str, Any],
        *,
        seconds: float,
        start_seconds: float,
        zygote: Zygote | None = None,
        retires: bool = True,
    ) -> None:
        self.retired = False
        """True if the child wants to be replaced: it holds too much memory."""
        self._seconds = seconds
        self._start_seconds = start_seconds
        self._buffer, self._mark = b"", os.urandom(8).hex().encode()
        self._process = _fresh() if zygote is None else zygote.fork({})
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        parent = os.getpid() if zygote is None else zygote.process.pid
        hello = {"handler": handler, "options": options, "parent": parent, "seconds": seconds}
        hello |= {"retires": retires, "mark": self._mark.decode()}
        self._pending = memoryview(encode(hello))
        self._schedule = _open_schedule(self._process.pid)

    def start(self) -> str:
        """Wait until the child is ready; returns '' or the reason why it is not."""
        message = self._next_message(time.monotonic() + self._start_seconds)
        if message is None:
            return f"the worker was not ready after {self._start_seconds:g} s"
        if not message:
            return "the worker died while it started"
        return "" if message[0] == "ready" else str(message[1])

    def exchange(self, lines: Sequence[bytes]) -> list[Reply]:
        """Send requests and return the replies, one for each.

        If the worker dies, goes over its limit or sends what is no answer, the replies end with the
        one that says so. The requests after that one were not answered, and the worker must be
        killed; the same holds when it is ``retired``.
        """
        self._pending = memoryview(b"".join(lines))
        replies: list[Reply] = []
        stage, limit, since = "", self._seconds, time.monotonic()
        while len(replies) < len(lines):
            message = self._message_within(limit)
            kind, content, *more = message or ("failed", "")
            if kind == "failed":
                late = message is None
                ended = ReplyKind.TIMED_OUT if late else ReplyKind.CRASHED
                reason = f"killed after {limit:g} s" if late else content
                return [*replies, Reply(ended, None, reason, stage, time.monotonic() - since)]
            if kind == "stage":
                stage, limit = content, more[0] if more else self._seconds
            elif kind == "retire":
                self.retired = True
                return replies
            else:
                value, reason = (content, "") if kind == "ok" else (None, content)
                ended = ReplyKind.OK if kind == "ok" else ReplyKind.ERROR
                replies.append(Reply(ended, value, reason, stage, more[0]))
                stage, limit, since = "", self._seconds, time.monotonic()
        return replies

    def kill(self) -> None:
        """End the child and what it started. Only for a child that has not been waited for."""
        if isinstance(self._process, ForkedChild):
            self._process.kill()
        else:
            kill_group(self._process.pid)

    def kill_and_wait(self) -> str:
        """End the child, wait for it, close the pipes, and say how it ended."""
        self.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._schedule):
            if pipe is not None:
                pipe.close()
        if code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-code).name
        return f"exit code {code}"

    def _message_within(self, limit: float) -> list[Any] | None:
        """The child's next message, or None after ``limit`` seconds in which it could work.

        Time in which it was ready but other processes had the cores does not count, so that
        a busy machine changes no verdict. ``PATIENCE`` times the limit is the end all the same.
        """
        started, waited = time.monotonic(), self._seconds_waited()
        end = limit
        while True:
            message = self._next_message(started + end)
            if message is not None:
                return message
            longer = limit + min(self._seconds_waited() - waited, (PATIENCE - 1) * limit)
            if longer < end + _SHORTEST_EXTENSION:
                return None
            end = longer

    def _seconds_waited(self) -> float:
        """Time that the child was ready to run without a core; 0 if the kernel does not count."""
        if self._schedule is None:
            return 0.0
        try:
            _, waited, *_ = os.pread(self._schedule.fileno(), 100, 0).split()
        except (ProcessLookupError, ValueError):  # it has ended, or is of a kernel without counts
            return 0.0
        return int(waited) / 1e9

    def _next_message(self, deadline: float) -> list[Any] | None:
        """The child's next message; [] if it is gone, None at the deadline."""
        while b"\n" not in self._buffer:
            readable, writable = self._wait(deadline)
            if writable:
                try:
                    self._pending = self._pending[os.write(self._input, self._pending) :]
                except BlockingIOError:
                    pass
                except BrokenPipeError:  # it is gone: reading says so
                    self._pending = memoryview(b"")
            if readable:
                data = os.read(self._output, _READ)
                if not data:
                    return []
                self._buffer += data
            elif not writable and time.monotonic() >= deadline:
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        with contextlib.suppress(ValueError):
            if line.startswith(self._mark):  # what a user's function writes to the pipe lacks it
                message: list[Any] = json.loads(line.removeprefix(self._mark))
                return message
        return ["failed", "its process sent a malformed answer"]

    def _wait(self, deadline: float) -> tuple[bool, bool]:
        """Wait until the child has something to read or takes something to write; says which."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        if self._pending:
            poll.register(self._input, select.POLLOUT)
        milliseconds = max(0.0, (deadline - time.monotonic()) * 1000) + 1
        ready = {descriptor for descriptor, _ in poll.poll(milliseconds)}
        return self._output in ready, self._input in ready


def _fresh() -> "subprocess.Popen[bytes]":
    # A new session: Ctrl-C in the terminal is only for the parent, and what the
    # handler may start dies with it.
    return start_child(
        "dph._processes.workers.child",
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )


def worker_zygote(handler: str, options: Mapping[str, Any], *, seconds: float) -> Zygote | None:
    """A process that makes the handler once and forks workers; None where none can (not Linux).

    What the handler imports is there when a worker is forked. The process may take ``seconds`` to
    get ready.
    """
    if sys.platform != "linux":
        return None
    words = json.dumps([handler, dict(options)])
    env = _environment()
    zygote = Zygote("dph._processes.workers.child", words, env=env, start_new_session=True)
    zygote.control.settimeout(seconds)
    return zygote


def _environment() -> dict[str, str]:
    """One seed of hashes: what iterates over a set does so alike in every worker."""
    return os.environ | {"PYTHONHASHSEED": "0"}


def _open_schedule(pid: int) -> IO[bytes] | None:
    """The kernel's count of what a process ran and waited, in nanoseconds; None without one."""
    try:
        return Path(f"/proc/{pid}/schedstat").open("rb", buffering=0)
    except OSError:
        return None


def encode(value: Any) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"
