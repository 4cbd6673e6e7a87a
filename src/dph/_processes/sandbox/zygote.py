"""A process that forks one for every program: ``python -P -m dph._processes.sandbox.zygote``.

It has the interpreter and much of the standard library loaded, so that a fork of it starts in a
millisecond. It has no secrets in its memory or environment, and never reads what it passes on: its
children get a task's texts through descriptors. In addition to what every zygote is asked
(dph._processes.child):

* parent, first: ``{"limits": {...}, "without": [...], "preload": [...]}``
* here: ``{"missing": [...]}``, what this machine does not offer
* parent: ``{"start": role, "seconds": s}`` and descriptors
* parent: ``{"end": pid, "seconds": s}``; here: ``{"status": code}`` when it has ended or that time
  is over, None if it had to be ended; the rest as after ``clear``
* parent: ``{"clear": true}``; here: ``{"status": {pid: code}}``, when no child is left and none
  of their files

All its children end with it.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from dph._processes.child import ForkServer
from dph._processes.sandbox import seccomp as kernel
from dph._processes.sandbox.confinement import Confinement, separate
from dph._processes.sandbox.judge import run_judge
from dph._processes.sandbox.program import run_program
from dph._processes.sandbox.supervisor import ProcessLimits

_LARGEST = 65536
_DESCRIPTORS = 65536
_WELL_USED = (
    *("bisect", "collections", "copy", "dataclasses", "functools", "heapq", "itertools"),
    *("math", "operator", "random", "re", "string", "typing"),
)
"""Loaded once for all programs. More would cost each of them more than it saves a few."""

Role = Callable[[Sequence[int]], object]
ROLES: Mapping[str, Role] = MappingProxyType({"program": run_program, "judge": run_judge})


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    hello = json.loads(control.recv(_LARGEST))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    without = hello["without"]
    number = os.getpid()
    separated = separate(without)
    parent = os.getppid()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    if not separated:  # continue as the first process of the namespace, for which this one waits
        if child := os.fork():
            os.waitpid(child, 0)
            os._exit(0)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    for name in _WELL_USED:
        import_module(name)
    _forget_the_harness()
    for name in hello["preload"]:
        with contextlib.suppress(ImportError):  # a program that imports it is told
            import_module(name)
    confinement = Confinement(
        ProcessLimits(**hello["limits"]), separated=separated, number=number, without=without
    )
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"missing": confinement.missing}).encode())
    ProgramForks(control, confinement, first=not separated and os.getpid() == 1).serve()


def _forget_the_harness() -> None:
    """Programs find Python's own modules and those installed, not what the parent's path has."""
    prefixes = tuple({sys.prefix, sys.base_prefix})
    sys.path[:] = [entry for entry in sys.path if entry.startswith(prefixes)]
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]
    os.environ.clear()
    os.environ.update({"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"})
    os.environ["OPENBLAS_NUM_THREADS"] = "1"


class ProgramForks(ForkServer):
    """Forks confined processes, and ends all that they leave."""

    def __init__(self, control: socket.socket, confinement: Confinement, *, first: bool) -> None:
        super().__init__(control, self._play_role)
        self._confinement = confinement
        self._pid = os.getpid()
        self._first = first

    def serve(self) -> None:
        """Answer until the parent is gone, and let nothing outlive that."""
        super().serve()
        self._clear()

    def answer(self, message: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """As every zygote, and ``end`` and ``clear``."""
        if "end" in message:
            status = self.wait(message["end"], message["seconds"])
            self._clear()
            return {"status": status}
        if "clear" in message:
            return {"status": self._clear()}
        return super().answer(message, descriptors)

    def _play_role(self, message: Mapping[str, Any], descriptors: list[int]) -> NoReturn:
        """Keep nothing but these descriptors, as 3, 4 ..., then play the role to its end."""
        code = 70
        try:
            high = [os.dup2(each, 100 + place) for place, each in enumerate(descriptors)]
            own = [os.dup2(each, 3 + place) for place, each in enumerate(high)]
            self._confinement.enter(message["seconds"], self._pid)
            os.closerange(3 + len(own), _DESCRIPTORS)
            os.dup2(0, 2)  # the parent's, until here
            ROLES[message["start"]](own)
            code = 0
        except BaseException as error:  # noqa: BLE001 - nothing may run after this function
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        finally:
            os._exit(code)

    def _clear(self) -> dict[int, int]:
        """End the children, and theirs, which come to be ours; then what they wrote."""
        for pid in list(self.running):
            _kill(pid)
            self.reap(pid)
        while orphans := self._others():
            for pid in orphans:
                _kill(pid)
            self._reap_orphans()
        self._confinement.clean()
        ended, self.ended = self.ended, {}
        return ended

    def _others(self) -> list[int]:
        """Children that this process did not start: none where the filter is in force.

        In a process namespace ``-1`` stands for all that are in it but this one, its first.
        """
        self._reap_orphans()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return []
        if self._first:
            return [-1]
        children = Path(f"/proc/self/task/{self._pid}/children")
        return [int(each) for each in children.read_text().split()]

    def _reap_orphans(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def _kill(pid: int) -> None:
    """End a process, which may be ending by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
