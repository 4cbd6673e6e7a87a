"""The parent's side: programs run in processes that are told nothing, and always ended."""

import fcntl
import json
import math
import os
import resource
import select
import socket
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dph._base.closing import Closing
from dph._processes.child import Zygote
from dph.errors import SettingsError, VerifierError
from dph.records import Outcome

_SMALLEST_MEMORY = 64_000_000
_STACK = 100_000_000
"""Bytes of a stack, less than the kernel keeps free for it. A recursion limit of 50,000 is reached
within them also by calls that go through C (``sorted`` by a key, a function with a cache)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Limits of one process; the kernel holds it to them.

    Attributes:
        memory_bytes: address space, what the interpreter takes included.
        file_bytes: size of a file that it writes, and of all of them together.
        files: files and directories that it may make.
        descriptors: open files.
        threads: of all processes of its user where that can be told apart from others.
    """

    memory_bytes: int = 1_000_000_000
    file_bytes: int = 16_000_000
    files: int = 256
    descriptors: int = 64
    threads: int = 64

    def __post_init__(self) -> None:
        if self.memory_bytes < _SMALLEST_MEMORY:
            raise SettingsError(
                f"a program needs at least {_SMALLEST_MEMORY} bytes of memory, "
                f"got {self.memory_bytes}"
            )


def apply_limits(limits: ProcessLimits, *, seconds: float, threads: int | None) -> None:
    """Hold the caller to ``limits`` and, a little later than the clock does, ``seconds`` of CPU.

    ``threads`` is the limit for all processes of the caller's user, None for none.
    """
    processor = math.ceil(seconds) + 1
    kinds = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_STACK: _STACK,
        resource.RLIMIT_CPU: processor,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.descriptors,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if threads is not None:
        kinds[resource.RLIMIT_NPROC] = threads
    for kind, value in kinds.items():
        _, hard = resource.getrlimit(kind)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


_LARGEST = 1 << 20
_READ = 65536
_START_SECONDS, _END_SECONDS = 60.0, 5.0
_ERRORS_KEPT = 4096
_HEADER = 8
_NO_MESSAGE = "the process that tests programs sent something other than a verdict"
_ADD_SEALS, _SEALS = 1033, 0b1111
"""F_ADD_SEALS; F_SEAL_SEAL, _SHRINK, _GROW and _WRITE. Only on Linux does ``fcntl`` know them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnd:
    """End of a script.

    ``code`` is that of its process, negative for a signal, None if it had to be killed.
    ``output`` is what it printed, unless ``over_output`` says that it was too much;
    ``errors`` the end of what it wrote to standard error. ``seconds`` is how long it ran.
    """

    code: int | None
    output: bytes
    errors: str
    over_output: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """Seconds for one step (the setup, loading the program, one test), and for all of them."""

    each: float
    in_all: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """Reply of a judge. ``outcome`` is None if it did not reach a verdict.

    ``stage`` is then the one that took longer than it may, if ``late``, or in which the judge died.
    """

    outcome: Outcome | None
    reason: str = ""
    stage: str = ""
    late: bool = False


class Sandbox(Closing):
    """Starts a zygote (dph._processes.sandbox.zygote), and processes by it.

    From one thread at a time; it ends with the thread that made it. ``missing`` names what this
    machine does not offer, ``without`` parts of the confinement to leave out (of
    dph._processes.sandbox.zygote.PARTS), ``preload`` modules to load once for all programs,
    if they are installed.
    """

    def __init__(
        self, limits: ProcessLimits, *, without: Collection[str] = (), preload: Sequence[str] = ()
    ) -> None:
        if sys.platform != "linux":
            raise SettingsError(f"programs are run on Linux, this is {sys.platform}")
        environment = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}  # nothing of the parent's
        self._zygote = Zygote("dph._processes.sandbox.zygote", env=environment)
        self._zygote.control.settimeout(_START_SECONDS)
        hello = {"limits": asdict(limits), "without": sorted(without), "preload": list(preload)}
        self.missing: tuple[str, ...] = tuple(self._ask(hello)["missing"])

    def start(self, role: str, descriptors: Sequence[int], *, seconds: float) -> int:
        """Start a process with descriptors of the caller's; its number for ``end``."""
        pid: int = self._ask({"start": role, "seconds": seconds}, descriptors)["pid"]
        return pid

    def end(self, pid: int, seconds: float) -> int | None:
        """Exit of a process that ended by itself within this time, else None; others are killed."""
        self._zygote.control.settimeout(_START_SECONDS + seconds)
        status: int | None = self._ask({"end": pid, "seconds": seconds})["status"]
        return status

    def clear(self) -> dict[int, int]:
        """End all processes, remove what they wrote, and say how they ended."""
        status = self._ask({"clear": True})["status"]
        return {int(pid): code for pid, code in status.items()}

    def run_script(
        self, source: str, stdin: str, *, seconds: float, output_bytes: int = 16_000_000
    ) -> ScriptEnd:
        """Run a program with an input to its end, or for that time."""
        job = memory_file(json.dumps({"mode": "script", "source": source}))
        given = memory_file(stdin)
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        try:
            pid = self.start("program", (job, given, their_out, their_err), seconds=seconds)
        finally:
            for descriptor in (job, given, their_out, their_err):
                os.close(descriptor)
        started = time.monotonic()
        deadline = started + seconds
        try:
            output, errors, over = _read_both(out, err, deadline, output_bytes)
            code = self.end(pid, 0.0 if over else max(0.0, deadline - time.monotonic()))
        finally:  # not before the end: a program that writes on would fail of that, not of time
            os.close(out)
            os.close(err)
        code = None if over else code
        text = errors.decode("utf-8", "replace").strip()
        took = time.monotonic() - started
        return ScriptEnd(code=code, output=output, errors=text, over_output=over, seconds=took)

    def run_tests(
        self,
        program: Mapping[str, Any],
        tests: Mapping[str, Any],
        limits: StepLimits,
        *,
        solution: Mapping[str, Any] | None = None,
    ) -> JudgeReply:
        """Let a judge test a program, which is in another process.

        ``program`` has ``source``, ``prefix`` and ``entry_point``; ``tests`` have ``setup``,
        ``tests``, ``calls``, ``entry_point`` and ``prefix``; what calls of ``solution``, a program
        too, return is what they must return.
        """
        ours, judges = socket.socketpair()
        descriptors = [memory_file(json.dumps(dict(tests))), judges.detach()]
        with ours:
            try:
                for each in (program, *([solution] if solution is not None else [])):
                    descriptors.append(self._start_called(each, limits.in_all))
                self.start("judge", descriptors, seconds=limits.in_all)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            judged = _listen(ours, limits)
        self.clear()
        return judged

    def _start_called(self, program: Mapping[str, Any], seconds: float) -> int:
        """Start a program that is called; the descriptor of the connection to it."""
        ours, theirs = socket.socketpair()
        file = memory_file(json.dumps({"mode": "calls", **program}))
        with theirs:
            try:
                self.start("program", (file, theirs.fileno()), seconds=seconds)
            finally:
                os.close(file)
        return ours.detach()

    def close(self) -> None:
        self._zygote.close(patience=_END_SECONDS)

    def _ask(self, message: Any, descriptors: Sequence[int] = ()) -> Any:
        try:
            return self._zygote.ask(message, descriptors)
        except OSError as error:
            raise VerifierError(f"the process that starts programs has died: {error}") from error


def _listen(judge: socket.socket, limits: StepLimits) -> JudgeReply:
    """Wait for a verdict; every step may take its time, and all of them theirs."""
    buffer, stage = b"", ""
    deadline = end = time.monotonic() + _START_SECONDS
    while True:
        while len(buffer) < _HEADER or len(buffer) < _HEADER + _size(buffer):
            if _size(buffer) > _LARGEST:
                return JudgeReply(outcome=Outcome.BAD_GOLD, reason=_NO_MESSAGE)
            judge.settimeout(max(0.001, deadline - time.monotonic()))
            data, late = b"", False
            try:
                data = judge.recv(_READ)
            except (TimeoutError, ConnectionResetError) as error:
                late = isinstance(error, TimeoutError)
            if not data:
                if not stage:
                    raise VerifierError("the process that tests programs did not start")
                return JudgeReply(outcome=None, stage=stage, late=late)
            buffer += data
        size = _HEADER + _size(buffer)
        try:
            kind, *said = json.loads(buffer[_HEADER:size])
            buffer = buffer[size:]
            if kind == "verdict":
                return JudgeReply(outcome=Outcome(said[0]), reason=str(said[1]))
        except (ValueError, TypeError, IndexError):
            return JudgeReply(outcome=Outcome.BAD_GOLD, reason=_NO_MESSAGE)
        now = time.monotonic()
        end = end if stage else now + limits.in_all
        stage = str(said[0])
        deadline = min(end, now + limits.each)


def _size(buffer: bytes) -> int:
    return int.from_bytes(buffer[:_HEADER], "little")


def memory_file(text: str) -> int:
    """A descriptor of a text that can no longer be changed, at its beginning."""
    descriptor = os.memfd_create("text", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(text.encode("utf-8", "surrogatepass"))
    fcntl.fcntl(descriptor, _ADD_SEALS, _SEALS)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_both(out: int, err: int, deadline: float, most: int) -> tuple[bytes, bytes, bool]:
    """All of one pipe and the end of the other, until both close, the deadline, or too much."""
    parts: list[bytes] = []
    size, errors = 0, b""
    poll = select.poll()
    open_ends = {out, err}
    for descriptor in open_ends:
        poll.register(descriptor, select.POLLIN)
    while open_ends and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            data = os.read(descriptor, _READ)
            if not data:
                poll.unregister(descriptor)
                open_ends.discard(descriptor)
            elif descriptor == out:
                parts.append(data)
                size += len(data)
            else:
                errors = (errors + data)[-_ERRORS_KEPT:]
        if size > most:
            return b"", errors, True
    return b"".join(parts), errors, False
