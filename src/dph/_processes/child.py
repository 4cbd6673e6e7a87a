"""Child processes: how they are started, killed with all that they started, and end.

A zygote is a process that has imported what others need, and forks them in a millisecond. It has
one thread, and has drawn, opened and computed nothing: what it forks begins like a fresh process.
Its standard input is a socket of whole messages in JSON:

* parent: ``{"start": what, ...}`` and descriptors; here: ``{"pid": n}``
* parent: ``{"wait": pid, "seconds": s}``; here: ``{"status": code}``, None while it runs

A code is that of ``os.waitstatus_to_exitcode``. The zygote ends when its parent does.

Loads nothing slow: it is the first thing that a child imports.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NoReturn

from dph._base.import_path import search_path

_LOOK_EVERY_MILLISECONDS = 2000


def start_child(
    module: str, *words: str, env: Mapping[str, str], **streams: Any
) -> "subprocess.Popen[bytes]":
    """Start ``python -m module`` with ``words``; it imports what this process can, and no more.

    ``streams`` are those of ``subprocess.Popen``, and other arguments of it.
    """
    command = [sys.executable, "-P", "-m", module, *words]
    return subprocess.Popen(command, env={**env, "PYTHONPATH": search_path()}, **streams)


def kill_group(leader: int) -> None:
    """Kill a child that leads its session, and what it started, if they still exist.

    Only for a child that has not been waited for: afterwards the number may be another's.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def end_when_left(descriptor: int, *, code: int, parent: int | None = None) -> None:
    """Let a thread end this process once ``descriptor`` can no longer be written to.

    It also ends when its parent is not ``parent`` any more, where one is named.
    """

    def watch() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # a hang-up is reported always, and nothing else should be
        while not poll.poll(_LOOK_EVERY_MILLISECONDS) and parent in (None, os.getppid()):
            pass
        os._exit(code)

    threading.Thread(target=watch, daemon=True).start()


PARENT = "DPH_PARENT_PID"
"""The variable of the environment that names the process to end with."""
_EVERY_SECONDS, _PATIENCE_SECONDS = 1.0, 20.0
"""Between looks at that process, and for this one to end in order."""


def end_with_parent() -> None:
    """End this process once the one that the environment names is gone; else do nothing.

    For commands that launchers start: the other started it but need not be its parent, and the
    others read their standard input too.
    """
    said = os.environ.get(PARENT, "")

    def wait_and_end() -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # or another's by now
            while True:
                os.kill(int(said), 0)
                time.sleep(_EVERY_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)  # so that Ray and others end what they started
        time.sleep(_PATIENCE_SECONDS)
        os._exit(1)

    if said.isdecimal():
        threading.Thread(target=wait_and_end, daemon=True).start()


_LARGEST = 65536
_MOST_DESCRIPTORS = 8


class ForkServer:
    """The zygote's own side: ``control`` is its socket, ``play`` what a child does."""

    def __init__(
        self, control: socket.socket, play: Callable[[Mapping[str, Any], list[int]], NoReturn]
    ) -> None:
        self.control, self._play = control, play
        self.running: set[int] = set()
        self.ended: dict[int, int] = {}

    def serve(self) -> None:
        """Answer until the parent is gone."""
        while True:
            data, descriptors, _, _ = socket.recv_fds(self.control, _LARGEST, _MOST_DESCRIPTORS)
            if not data:
                return
            answer = self.answer(json.loads(data), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            with contextlib.suppress(BrokenPipeError):  # the next message says that it is gone
                self.control.send(json.dumps(answer).encode())

    def answer(self, message: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        if "wait" in message:
            return {"status": self.wait(message["wait"], message["seconds"])}
        child = os.fork()
        if not child:
            self._play(message, descriptors)
        self.running.add(child)
        return {"pid": child}

    def wait(self, pid: int, seconds: float) -> int | None:
        """Exit of a child within this time; None if it did not end."""
        if pid in self.running:
            descriptor = os.pidfd_open(pid)
            try:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                if poll.poll(max(0.0, seconds) * 1000):
                    self.reap(pid)
            finally:
                os.close(descriptor)
        return self.ended.get(pid)

    def reap(self, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        self.running.discard(pid)
        self.ended[pid] = os.waitstatus_to_exitcode(status)


def serve_forks(load: Callable[[], object], main: Callable[[], int | None]) -> None:
    """Be a zygote: ``load`` what children need, then fork them until no request is left.

    ``main`` is what a child does, with the standard streams that a message brings. What ``load``
    raises, a child says that tries it again.
    """

    def play(_: Mapping[str, Any], descriptors: list[int]) -> NoReturn:
        control.close()
        os.setsid()
        for number, stream in enumerate(descriptors):
            os.dup2(stream, number)
            os.close(stream)
        sys.exit(main())

    control = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)  # a module that is loaded may read it
    os.close(nothing)
    with contextlib.suppress(Exception, SystemExit):
        load()
    gc.freeze()  # collecting garbage writes to every object: children would copy what they share
    ForkServer(control, play).serve()


class Zygote:
    """The parent's side: ``python -m module`` with ``words``, which serves as a ``ForkServer``.

    ``env`` and ``more`` are those of ``start_child``. Threads that ask wait for each other.
    """

    def __init__(self, module: str, *words: str, env: Mapping[str, str], **more: Any) -> None:
        self._asking = threading.Lock()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = start_child(
                module, *words, env=env, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, **more
            )

    def ask(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> Any:
        with self._asking:
            socket.send_fds(self.control, [json.dumps(message).encode()], descriptors)
            try:
                data = self.control.recv(_LARGEST)
            except TimeoutError:
                self.process.kill()
                self.control.shutdown(socket.SHUT_RDWR)  # the next request fails
                raise
        if not data:
            raise ConnectionResetError(f"it ended with code {self.process.wait()}")
        return json.loads(data)

    def has_ended(self) -> bool:
        """True if it has stopped answering; ``control`` closes before the exit code is known."""
        poll = select.poll()
        poll.register(self.control, 0)  # of a hang-up one hears without asking
        return self.process.poll() is not None or bool(poll.poll(0))

    def fork(
        self, message: Mapping[str, Any], *, stdout: int | None = None, more: Sequence[int] = ()
    ) -> "ForkedChild":
        """Start a child with pipes as its standard input and output, and ``more`` after them.

        Its output goes to the descriptor ``stdout`` where one is given.
        """
        job, said = os.pipe(), os.pipe() if stdout is None else None
        stdin = os.fdopen(job[1], "wb")
        output = os.fdopen(said[0], "rb") if said else None
        out = said[1] if said else stdout
        assert out is not None
        try:
            pid = self.ask(message, [job[0], out, *more])["pid"]
        except OSError:
            for stream in filter(None, (stdin, output)):
                stream.close()
            raise
        finally:
            os.close(job[0])
            if said:
                os.close(said[1])
        return ForkedChild(self, pid, stdin, output)

    def close(self, patience: float = 0.0) -> None:
        """Let it end by itself for ``patience`` seconds, then kill it. Repeatable."""
        self.control.close()
        if patience:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=patience)
        if self.process.poll() is None:
            self.process.kill()  # also in the middle of an import
            self.process.wait()


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

        A child whose zygote is gone is killed, its code is -1: its end could not be waited for.
        """
        if self.returncode is None:
            try:
                message = {"wait": self.pid, "seconds": seconds}
                self.returncode = self._zygote.ask(message)["status"]
            except OSError:
                kill_group(self.pid)
                self.returncode = -1
        return self.returncode

    def wait(self) -> int:
        while (code := self.poll(seconds=1.0)) is None:
            pass
        return code

    def kill(self) -> None:
        """Kill it, also before it leads a group."""
        kill_group(self.pid)
        self.terminate(signal.SIGKILL)

    def terminate(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, how)
