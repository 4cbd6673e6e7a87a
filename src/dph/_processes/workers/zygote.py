"""``python -m dph._processes.workers.zygote JSON``: make a handler once, fork workers.

The JSON is ``[handler, options]`` (dph._processes.workers.child). Whatever the handler's module
imports is imported once; a forked worker makes its own handler, in a millisecond. A message brings
a worker's standard input and output.
"""

import contextlib
import gc
import json
import os
import resource
import socket
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from dph._base.import_path import load_callable
from dph._processes.workers import child
from dph._processes.zygote import ForkServer


class WorkerForks(ForkServer):
    """Forks workers."""

    def play(self, message: Mapping[str, Any], descriptors: list[int]) -> NoReturn:
        """Lead a session, take the streams that came, and serve until they close."""
        del message  # there is one kind of them
        code = 1
        try:
            self.control.close()
            os.setsid()
            for number, stream in enumerate(descriptors):
                os.dup2(stream, number)
                os.close(stream)
            child.main()
            code = 0
        finally:
            os._exit(code)  # neither the zygote's loop nor its handlers at exit


def main() -> None:
    """Fork on request until whoever asks is gone; in a child, be a worker."""
    handler, options = json.loads(sys.argv[1])
    control = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)  # a handler's module may read it
    os.close(nothing)
    with contextlib.suppress(Exception, SystemExit):  # the worker says what is wrong
        load_callable(handler)(options)
    # A worker that dies of a signal is an everyday event, not one to dump core for.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    gc.freeze()  # collecting garbage writes to every object: children would copy what they share
    WorkerForks(control).serve()


if __name__ == "__main__":
    main()
