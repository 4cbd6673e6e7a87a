"""``python -m dph._processes.jobs.zygote module:function``: import once, fork a child for each job.

Importing torch and transformers takes seconds of a core; forked children have them already. What
is forked has one thread and has drawn, opened and computed nothing: a child begins like a fresh
process.

Each message on standard input, a socket, asks for a child and brings its standard input, output
and error. Answers are lines of JSON: ``{"started": pid}``, ``{"ended": pid, "code": code}``.
"""

import contextlib
import gc
import json
import os
import select
import socket
import sys
from importlib import import_module

from dph._processes.jobs import child

STREAMS = 3
"""File descriptors that come with a request."""
_LOOK_EVERY = 0.02
"""Seconds between looks at children that may have ended."""


def main() -> int:
    """Fork on request until whoever asks is gone; in a child, do its job."""
    with contextlib.suppress(Exception):  # the child imports it again, and says what is wrong
        import_module(sys.argv[1].partition(":")[0])
    gc.freeze()  # collecting garbage writes to every object: children would copy what they share
    channel = socket.socket(fileno=os.dup(0))
    alive: set[int] = set()
    while True:
        if _is_asked(channel, _LOOK_EVERY if alive else None):
            request, streams, _, _ = socket.recv_fds(channel, 1, STREAMS)
            if not request:
                return 0
            pid = os.fork()
            if not pid:
                _begin(channel, streams)
                return child.main()
            for stream in streams:
                os.close(stream)
            alive.add(pid)
            _say(channel, {"started": pid})
        for pid, code in _ended(alive):
            alive.remove(pid)
            _say(channel, {"ended": pid, "code": code})


def _is_asked(channel: socket.socket, patience: float | None) -> bool:
    return bool(select.select([channel], [], [], patience)[0])


def _begin(channel: socket.socket, streams: list[int]) -> None:
    """Become a separate process, with the streams that the request brought."""
    channel.close()
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)


def _ended(alive: set[int]) -> list[tuple[int, int]]:
    found = [os.waitpid(pid, os.WNOHANG) for pid in sorted(alive)]
    return [(pid, os.waitstatus_to_exitcode(status)) for pid, status in found if pid]


def _say(channel: socket.socket, what: dict[str, int]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the next look at the channel sees that it is gone
        channel.sendall(json.dumps(what).encode("ascii") + b"\n")


if __name__ == "__main__":
    sys.exit(main())
