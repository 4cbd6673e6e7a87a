"""Zygotes: processes that have imported what others need, and fork them in a millisecond.

A zygote has one thread, and has drawn, opened and computed nothing: what it forks begins like a
fresh process. Its standard input is a socket of whole messages in JSON:

* parent: ``{"start": what, ...}`` and descriptors; here: ``{"pid": n}``
* parent: ``{"wait": pid, "seconds": s}``; here: ``{"status": code}``, None while it runs

A code is that of ``os.waitstatus_to_exitcode``. The zygote ends when its parent does.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from dph._processes.child import start_child

_LARGEST = 65536
_MOST_DESCRIPTORS = 8


class ForkServer(ABC):
    """The zygote's own side; ``control`` is its socket."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.running: set[int] = set()
        self.ended: dict[int, int] = {}

    def serve(self) -> None:
        """Answer until whoever asks is gone."""
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
        """Do what a message asks for."""
        if "wait" in message:
            return {"status": self.wait(message["wait"], message["seconds"])}
        child = os.fork()
        if not child:
            self.play(message, descriptors)
        self.running.add(child)
        return {"pid": child}

    @abstractmethod
    def play(self, message: Mapping[str, Any], descriptors: list[int]) -> NoReturn:
        """Be the child that was asked for, to its end."""

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
        """Wait for the end of a child, and note it."""
        _, status = os.waitpid(pid, 0)
        self.running.discard(pid)
        self.ended[pid] = os.waitstatus_to_exitcode(status)


class Zygote:
    """The parent's side: ``python -m module`` with ``words``, which serves as a ``ForkServer``.

    ``env`` and ``more`` are those of ``start_child``. From one thread at a time.
    """

    def __init__(self, module: str, *words: str, env: Mapping[str, str], **more: Any) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = start_child(
                module, *words, env=env, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, **more
            )

    def ask(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> Any:
        """Its answer.

        Raises:
            OSError: it is gone, or has said nothing for as long as ``control`` waits.
        """
        socket.send_fds(self.control, [json.dumps(message).encode()], descriptors)
        data = self.control.recv(_LARGEST)
        if not data:
            raise ConnectionResetError(f"it ended with code {self.process.wait()}")
        return json.loads(data)

    def has_ended(self) -> bool:
        """Whether nobody would answer: its end of ``control`` closes before its exit is known."""
        poll = select.poll()
        poll.register(self.control, 0)  # of a hang-up one hears without asking
        return self.process.poll() is not None or bool(poll.poll(0))

    def close(self, patience: float = 0.0) -> None:
        """Let it end by itself for so many seconds, then kill it. Closing twice is harmless."""
        self.control.close()
        if patience:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=patience)
        if self.process.poll() is None:
            self.process.kill()  # also in the middle of an import
            self.process.wait()
