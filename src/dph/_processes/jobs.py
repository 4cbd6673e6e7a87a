"""Work in several processes at a time: children of this one that end with it.

``python -m dph._processes.jobs module:function`` is such a child: it does one job, a line of JSON
on its input. With ``forks`` after it, it imports the module once and forks a child for each job,
which then does not take the seconds that torch and transformers take to import.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from dph._base.files import make_directory
from dph._processes.child import (
    ForkedChild,
    Zygote,
    end_when_left,
    kill_group,
    serve_forks,
    start_child,
)
from dph.errors import DphError, StageError, is_bad_input

_LOOK_EVERY = 0.05
"""Seconds between looks at the processes; a run takes many of them."""
_TAIL = 4000
"""Characters at the end of a log that the reason of a failure is taken from."""
_BAD_INPUT = 2
"""The exit code of a child whose job cannot be done as it was given."""
Child = subprocess.Popen[bytes] | ForkedChild
"""A process that does a job; its number is also its group's."""


@dataclass(frozen=True, slots=True)
class Job:
    """``payload`` is JSON: all that the job needs, with absolute paths."""

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


class Starter:
    """Starts children that call ``entry`` (``module:function``): forked, or each a fresh process.

    Only Linux is known to fork well after numerical libraries were imported.
    """

    def __init__(self, entry: str, *, forks: bool = sys.platform == "linux") -> None:
        self._entry, self._forks = entry, forks
        self._zygote: Zygote | None = None

    def start(self, *, stderr: IO[bytes], read: bool) -> Child:
        """Start a child in a new session; ``read`` its output, or discard it."""
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        if not self._forks:
            out = subprocess.PIPE if read else subprocess.DEVNULL
            streams = {"stdin": subprocess.PIPE, "stdout": out, "stderr": stderr}
            return start_child(__name__, self._entry, env=env, start_new_session=True, **streams)
        if self._zygote is not None and self._zygote.has_ended():
            self.close()
        if self._zygote is None:
            # Asking the driver for GPUs would spoil them for what is forked afterwards.
            env["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
            words = (self._entry, "forks")
            self._zygote = Zygote(__name__, *words, env=env, start_new_session=True)
        nowhere = None if read else os.open(os.devnull, os.O_WRONLY)
        try:
            return self._zygote.fork({"start": "job"}, stdout=nowhere, more=[stderr.fileno()])
        except OSError as error:
            raise StageError(
                "no process could be started: the one that forks them has ended"
            ) from error
        finally:
            if nowhere is not None:
                os.close(nowhere)

    def close(self) -> None:
        """End the process that forks; children end only as their standard input closes."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


class CoreJobs:
    """At most ``capacity`` children that call ``entry`` (``module:function``) with a job's payload.

    ``log`` says where a job's stderr goes. ``on_line`` is told the job and each line that its
    child prints, from a thread for each child; ``wait`` returns a child after its last line.

    A child computes on one thread. Its standard input stays open as long as this process lives:
    when it closes, however this process ended, the child ends too.
    """

    def __init__(
        self,
        capacity: int,
        log: Callable[[str], Path],
        *,
        entry: str,
        on_line: Callable[[str, str], None] | None = None,
        start_by: Callable[[str], Starter] = Starter,
    ) -> None:
        self.capacity, self._log = capacity, log
        self._starter = start_by(entry)
        self._on_line = on_line
        self._running: dict[str, Child] = {}
        self._readers: dict[str, threading.Thread] = {}
        self._broken: Exception | None = None

    def start(self, job: Job) -> None:
        path = self._log(job.id)
        make_directory(path.parent)
        with path.open("wb") as log:
            child = self._starter.start(stderr=log, read=self._on_line is not None)
        self._running[job.id] = child
        if self._on_line is not None:
            words = (job.id, child.stdout, self._on_line)
            reader = threading.Thread(target=self._read, args=words, daemon=True)
            self._readers[job.id] = reader
            reader.start()
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died already: waiting says so
            child.stdin.write(json.dumps(job.payload).encode("ascii") + b"\n")
            child.stdin.flush()

    def wait(self, *, until: float = float("inf")) -> JobEnd:
        """The end of a child; raises TimeoutError at a time of ``time.monotonic``."""
        while time.monotonic() < until:
            for name, child in self._running.items():
                if (code := child.poll()) is not None:
                    self._forget(name)
                    if self._broken is not None:
                        raise self._broken
                    error = self._reason(name, code) if code else ""
                    return JobEnd(name, error, bad_input=code == _BAD_INPUT)
            time.sleep(_LOOK_EVERY)
        raise TimeoutError

    def close(self, *, patience: float = 0.0) -> None:
        """Kill all children and what they started; with ``patience`` (s), after a SIGTERM."""
        until = time.monotonic() + patience
        if patience:
            for child in self._running.values():
                child.terminate()
        while time.monotonic() < until and any(c.poll() is None for c in self._running.values()):
            time.sleep(_LOOK_EVERY)
        for name in list(self._running):
            child = self._running[name]
            kill_group(child.pid)
            child.kill()  # it may not lead its group yet
            child.wait()
            self._forget(name)
        self._starter.close()

    def _read(self, name: str, stream: IO[bytes], on_line: Callable[[str, str], None]) -> None:
        with stream:
            for line in stream:
                try:
                    on_line(name, line.decode("utf-8", errors="replace").rstrip("\n"))
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


def do_job() -> int:
    """Be a child: 0 where the job is done, else 1 or 2, with the reason as stderr's last line."""
    line = b""
    while not line.endswith(b"\n"):  # without a buffer: a thread waits for the end of the same pipe
        data = os.read(0, 65536)
        if not data:
            return 1
        line += data
    end_when_left(0, code=1)
    module, _, function = sys.argv[1].partition(":")
    try:
        getattr(import_module(module), function)(json.loads(line))  # torch, after the thread
    except DphError as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # noqa: T201
        return _BAD_INPUT if is_bad_input(error) else 1
    except Exception as error:  # noqa: BLE001 - the parent tells it in one line
        traceback.print_exc()
        print(f"unexpected {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def main() -> None:
    if sys.argv[2:] != ["forks"]:
        sys.exit(do_job())
    serve_forks(lambda: import_module(sys.argv[1].partition(":")[0]), do_job)


if __name__ == "__main__":
    main()
