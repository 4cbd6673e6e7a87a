"""Child processes of this one: how they are started, killed with all that they started, and end.

Loads nothing slow: it is the first thing that a child imports.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from dph._base.import_path import search_path

_LOOK_EVERY_MILLISECONDS = 2000


def start_child(
    module: str, *words: str, env: Mapping[str, str], **streams: Any
) -> "subprocess.Popen[bytes]":
    """Start ``python -m module`` with ``words``; it imports what this process can, and no more.

    Args:
        module: the child's program.
        words: of its command line.
        env: its environment.
        streams: as ``subprocess.Popen`` takes them, and other arguments of it.
    """
    command = [sys.executable, "-P", "-m", module, *words]
    return subprocess.Popen(command, env={**env, "PYTHONPATH": search_path()}, **streams)


def kill_group(leader: int) -> None:
    """Kill a child that leads a session of its own, and what it started, if they are still there.

    Only for a child that nobody has waited for: afterwards the number may be another's.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def end_when_left(descriptor: int, *, code: int, parent: int | None = None) -> None:
    """Let a thread end this process once nobody can write to ``descriptor`` any more.

    It also ends when its parent is not ``parent`` any more, where one is named.
    """
    watch = threading.Thread(target=_watch, args=(descriptor, code, parent), daemon=True)
    watch.start()


def _watch(descriptor: int, code: int, parent: int | None) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # a hang-up is reported always, and nothing else should be
    while not poll.poll(_LOOK_EVERY_MILLISECONDS) and parent in (None, os.getppid()):
        pass
    os._exit(code)


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
    if said.isdecimal():
        threading.Thread(target=_wait_and_end, args=(int(said),), daemon=True).start()


def _wait_and_end(parent: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the latter: another's by now
        while True:
            os.kill(parent, 0)
            time.sleep(_EVERY_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)  # so that Ray and others end what they started
    time.sleep(_PATIENCE_SECONDS)
    os._exit(1)
