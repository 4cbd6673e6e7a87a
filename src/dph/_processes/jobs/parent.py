"""A process that ends with another one, which started it but need not be its parent.

For commands that launchers start, whose standard input is not theirs alone
(``dph._processes.jobs.child`` waits for the end of it).
"""

import os
import signal
import threading
import time

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
