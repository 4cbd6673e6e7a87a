"""The process that holds a program: a script with its input, or functions that are called.

Nothing here decides anything. The process is the program's, it may do with it what it can; what
leaves it is the script's output, or values, and others judge them.
"""

import atexit
import os
import random
import sys
import types
from collections.abc import Sequence

from dph._processes.sandbox.served import serve_calls, text_of
from dph._processes.sandbox.values import Channel, read_document

NOT_LOADED = 97
"""The exit code of a script that could not be compiled."""
_REASON_CHARACTERS = 300


def run_program(descriptors: Sequence[int]) -> None:
    """The role ``program``: the job's descriptor, then those that its mode needs.

    ``calls``: a channel. ``script``: standard input, output and error.
    """
    job = read_document(descriptors[0])
    random.seed(0)
    if job["mode"] == "script":
        _run_script(job["source"], descriptors[1:])
    else:
        serve_calls(job, Channel(descriptors[1]), _module("program"))


def _run_script(source: str, descriptors: Sequence[int]) -> None:
    for place, name in enumerate(("stdin", "stdout", "stderr")):
        os.dup2(descriptors[place], place)
        os.close(descriptors[place])
        mode = "r" if name == "stdin" else "w"
        buffering = 1 if name == "stderr" else -1
        stream = os.fdopen(place, mode, buffering, encoding="utf-8", errors="surrogateescape")
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    module = _module("__main__")
    try:
        code = compile(source, "<program>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        os.write(2, describe(error).encode("utf-8", "replace"))
        os._exit(NOT_LOADED)
    status = 0
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            status = int(error.code or 0) & 0xFF
        else:
            status = 1
            os.write(2, f"\n{error.code}".encode("utf-8", "replace"))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it ends the program
        status = 1
        os.write(2, f"\n{describe(error)}".encode("utf-8", "replace"))
    _end(status)


def _end(status: int) -> None:
    """Leave as the interpreter would: threads end, then exit handlers, then buffers are written."""
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001
        os.write(2, f"\n{describe(error)}".encode("utf-8", "replace"))
        status = status or 1
    os._exit(status)


def _module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules[name] = module
    return module


def describe(error: BaseException) -> str:
    """An exception in one line."""
    name, text = type(error).__name__, " ".join(text_of(error).split())
    return (f"{name}: {text}" if text else name)[:_REASON_CHARACTERS]
