"""``python -m dph._processes.jobs.zygote module:function``: import once, fork a child for each job.

Importing torch and transformers takes seconds of a core; forked children have them already. A
message brings a child's standard input, output and error.
"""

import contextlib
import gc
import os
import socket
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn

from dph._processes.jobs import child
from dph._processes.zygote import ForkServer


class JobForks(ForkServer):
    """Forks children that do one job each."""

    def play(self, message: Mapping[str, Any], descriptors: list[int]) -> NoReturn:
        """Become a process of its own, with the streams that came, and do the job."""
        del message  # there is one kind of them
        self.control.close()
        os.setsid()
        for number, stream in enumerate(descriptors):
            os.dup2(stream, number)
            os.close(stream)
        sys.exit(child.main())


def main() -> None:
    """Fork on request until whoever asks is gone; in a child, do its job."""
    with contextlib.suppress(Exception):  # the child imports it again, and says what is wrong
        import_module(sys.argv[1].partition(":")[0])
    gc.freeze()  # collecting garbage writes to every object: children would copy what they share
    JobForks(socket.socket(fileno=os.dup(0))).serve()


if __name__ == "__main__":
    main()
