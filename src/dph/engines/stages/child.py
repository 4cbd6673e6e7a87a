"""A command of another engine: run to its end, watched, and ended with this process."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dph._base.files import make_directory
from dph._processes.jobs.child import PARENT
from dph.errors import TrainingError

ERROR = "dph: "
"""What the line begins with by which a child of this package says why it ended."""
_LOOK_EVERY = 0.2
_PATIENCE = 10.0
"""Seconds that a child has to end after it was asked to."""
_TAIL = 20000
"""Characters at the end of a log in which the reason of a failure is looked for."""
_RAISED = re.compile(r"(?:[(\[][^)\]]*[)\]]:? *)*((?:\w+\.)*\w*(?:Error|Exception)(?:: .*)?)$")
"""The last line of a traceback, whatever process a launcher puts before it."""


def run_command(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Run ``command``, whose output goes to ``log``; ``watch`` is called a few times a second.

    However this function ends, nothing that the command started is left in its process group.

    Raises:
        TrainingError: the command failed; says why, and where its log is.
    """
    make_directory(log.parent)
    own = {PARENT: str(os.getpid()), **environment}
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for this process, which ends the whole group
            env={**os.environ, **own},
        )
    try:
        while process.poll() is None:
            watch()
            time.sleep(_LOOK_EVERY)
        watch()
    finally:
        _end(process)
    if process.returncode:
        raise TrainingError(f"{_reason(log, process.returncode)} (the whole log: {log})")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask the group to end, and end it."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: "subprocess.Popen[bytes]", which: signal.Signals) -> None:
    try:
        os.killpg(process.pid, which)
    except ProcessLookupError:
        return


def _reason(log: Path, code: int) -> str:
    """What a child of this package said; or else the first error of a traceback, or the last line.

    Of several processes one fails first and the launcher last.
    """
    text = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line.partition(ERROR)[2] for line in lines if line.startswith(ERROR)]
    errors = [found[1] for line in lines if (found := _RAISED.match(line))]
    last = [*said[:1], *errors[:1], *lines[-1:], "it said nothing"][0]
    return last if code > 0 else f"ended by signal {-code}: {last}"
