"""``python -m dph._processes.jobs.child module:function``: one job, a line of JSON on its input."""

import json
import os
import signal
import sys
import threading
import time
import traceback
from importlib import import_module

from dph._processes.child import end_when_left
from dph.errors import DphError, is_bad_input

# A process that ends with another one, which started it but need not be its parent.
#
# For commands that launchers start, whose standard input is not theirs alone
# (``dph._processes.jobs.child`` waits for the end of it).

PARENT = "DPH_PARENT_PID"
"""The variable of the environment that names the process to end with."""
_EVERY, _PATIENCE = 1.0, 20.0
"""Seconds between looks, and that the process has to end in order."""


def end_with_parent() -> None:
    """End this process once the one that the environment names is gone; else do nothing."""
    said = os.environ.get(PARENT, "")
    if said.isdecimal():
        threading.Thread(target=_wait_and_end, args=(int(said),), daemon=True).start()


def _wait_and_end(parent: int) -> None:
    while _is_there(parent):
        time.sleep(_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)  # so that Ray and others end what they started
    time.sleep(_PATIENCE)
    os._exit(1)


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, so it was not ours that has this number now
        return False
    return True


BAD_INPUT = 2
"""The exit code of a child whose job cannot be done as it was given."""


def main() -> int:
    """Do the job; 0 where it is done, else 1 or 2, with the reason as stderr's last line."""
    line = _first_line()
    if not line:
        return 1
    end_when_left(0, code=1)
    module, _, function = sys.argv[1].partition(":")
    try:
        getattr(import_module(module), function)(json.loads(line))  # torch, after the thread
    except DphError as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # noqa: T201
        return BAD_INPUT if is_bad_input(error) else 1
    except Exception as error:  # noqa: BLE001 - the parent tells it in one line
        traceback.print_exc()
        print(f"unexpected {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _first_line() -> bytes:
    """Read without a buffer: a thread waits for the end of the same pipe."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(0, 65536)
        if not data:
            return b""
        line += data
    return line


if __name__ == "__main__":
    sys.exit(main())
