"""Programs for tests that kill them, forked by a process that has imported torch."""

import contextlib
import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from dph._processes.jobs import Starter


class Program:
    """A program that runs, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, child, said):
        self._child, self._said = child, said
        self.pid, self.stdout = child.pid, child.stdout

    @property
    def returncode(self):
        return self._child.returncode

    def lines(self):
        for line in self.stdout:
            yield line.decode().rstrip("\n")

    def poll(self):
        return self._child.poll()

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def finish(self):
        """Wait for its end: its exit code, all that it still prints, what it said on stderr."""
        printed = self.stdout.read().decode()
        code = self._child.wait()
        self._said.seek(0)
        return code, printed, self._said.read().decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stdout.read()
        self._child.wait()
        for stream in (self.stdout, self._child.stdin, self._said):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


@pytest.fixture(scope="session")
def fork_program():
    """``fork_program(code, *words)`` -> a `Program` that runs ``code`` with ``sys.argv[1:]``."""
    starter = Starter("torch_program:run")

    def start(code, *words):
        said = tempfile.TemporaryFile()  # noqa: SIM115  # the program closes it
        child = starter.start(stderr=said, read=True)
        asked = {"code": code, "words": [str(word) for word in words], "directory": str(Path.cwd())}
        child.stdin.write(json.dumps(asked).encode() + b"\n")
        child.stdin.flush()
        return Program(child, said)

    yield start
    starter.close()
