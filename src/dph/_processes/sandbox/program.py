"""The process that holds a program: a script with its input, or functions that are called.

Nothing here decides anything. The process is the program's, it may do with it what it can; what
leaves it is the script's output, or values, and others judge them. The program's text is made here,
too, of an answer and what the task has before it: to parse hostile text is work for a process that
may die.
"""

import ast
import atexit
import os
import random
import re
import sys
import types
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from dph._processes.sandbox.values import (
    Channel,
    ChannelBrokenError,
    ChannelClosedError,
    bases_of,
    decode,
    encode,
    read_document,
    refuse_reference,
)

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
        _serve_calls(job, Channel(descriptors[1]))


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
        os.write(2, _describe(error).encode("utf-8", "replace"))
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
        os.write(2, f"\n{_describe(error)}".encode("utf-8", "replace"))
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
        os.write(2, f"\n{_describe(error)}".encode("utf-8", "replace"))
        status = status or 1
    os._exit(status)


def _module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules[name] = module
    return module


def _describe(error: BaseException) -> str:
    name, text = type(error).__name__, " ".join(text_of(error).split())
    return (f"{name}: {text}" if text else name)[:_REASON_CHARACTERS]


def text_of(error: BaseException) -> str:
    """The text of an exception, whatever its class makes of it."""
    try:
        text = error.args[0] if type(error) is KeyError and error.args else error
        return str(text)[:_REASON_CHARACTERS]
    except BaseException:  # noqa: BLE001 - it is the program's own class
        return ""


def _serve_calls(job: dict[str, Any], channel: Channel) -> None:
    """Load the program, say what it defines, then answer until the other side closes."""
    names = _module("program").__dict__
    try:
        source = whole_source(job["source"], job["prefix"], job["entry_point"])
        exec(compile(source, "<program>", "exec"), names)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the program cannot be used
        channel.send(["failed", bases_of(type(error)), text_of(error)])
        return
    channel.send(["loaded", [name for name in list(names) if isinstance(name, str)]])
    served = _ProgramServer(names)
    while True:
        try:
            message = channel.receive()
        except ChannelClosedError:
            return
        try:
            channel.send(served.answer(*message))
        except ChannelBrokenError as error:
            channel.send(["raised", ["MemoryError", "Exception"], str(error), None])


class _ProgramServer:
    """The program's functions, and the iterators that they returned."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._iterators: list[Iterator[Any]] = []

    def answer(self, request: str, *content: Any) -> list[Any]:
        """``value`` and what it is, or ``raised``, the exception's class, its text and values."""
        try:
            if request == "next":  # of an iterator that may have no end
                number, most = content
                value: Any = list(islice(self._iterators[number], most))
            else:
                called, positional, named = content
                name, _, method = called.partition(".")
                if name not in self._names:
                    raise NameError(f"the program defines no {name}")
                function = self._names[name]
                if method:
                    function = getattr(function(), method)
                value = function(*decode(positional), **decode(named))
            return ["value", encode(value, self._refer)]
        except BaseException as error:  # noqa: BLE001 - it is the caller's to judge
            return ["raised", bases_of(type(error)), text_of(error), _arguments(error)]

    def _refer(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Iterator):
            self._iterators.append(value)
            return {"iterator": len(self._iterators) - 1}
        return {"object": type(value).__name__[:100]}


def _arguments(error: BaseException) -> Any:
    """Arguments of one of Python's own exceptions, None where they are no plain values."""
    if type(error).__module__ != "builtins":
        return None
    try:
        return encode(list(error.args), lambda value: refuse_reference(type(value).__name__, value))
    except (TypeError, ValueError, RecursionError):
        return None


_STOPS = re.compile(r"\n(?:(?:class|def|if|print|assert|import|from)\b|#|@|```)")
"""Ends of a continuation; class, def, #, if and print are arXiv:2107.03374's, section 2.1."""


def whole_source(code: str, prefix: str, entry_point: str) -> str:
    r"""The program: ``prefix`` and an answer that continues it, or the answer alone.

    An answer that begins with an indented line continues the prefix, up to the first line that
    starts something new. Any other is a program that follows the prefix, so that what the
    prefix imports is there; without its stub of ``entry_point``, where the answer has none, the
    name stays undefined.

    >>> whole_source("    return 1\n\nprint(f())", "def f():\n", "f")
    'def f():\n    return 1\n'
    """
    if not prefix:
        return code
    first = next((line for line in code.splitlines() if line.strip()), "")
    last, name = prefix.rpartition("\n")[2], re.escape(entry_point)
    own = rf"^(?:(?:(?:async )?def|class) {name}\b|{name} *[:=])"
    is_cut = last.isspace() or (last and completed(prefix) != prefix)
    if first[:1].isspace() or (is_cut and not re.search(own, code, re.MULTILINE)):
        stop = _STOPS.search(code)
        rest = code[: stop.start()] if stop else code
        start = prefix.rstrip(" \t") if first[:1].isspace() else prefix
        return f"{start}{'' if not last.strip() or _compiles(start + rest) else chr(10)}{rest}"
    return f"{prefix_alone(prefix, entry_point)}\n{code}"


def completed(prefix: str) -> str:
    """The beginning of a program as one that compiles, with ``pass`` for a body that is missing.

    What cannot be completed stays what it is.
    """
    endings = ("", f"\n{' ' * 80}pass\n", '"""', "'''")
    return next((prefix + each for each in endings if _compiles(prefix + each)), prefix)


def _compiles(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def prefix_alone(prefix: str, entry_point: str) -> str:
    """The prefix without the function that the answer must define."""
    prefix = completed(prefix)
    if not _compiles(prefix):  # the answer must bring everything
        return ""
    tree = ast.parse(prefix)
    lines = prefix.splitlines()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry_point:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            for index in range(first - 1, node.end_lineno or node.lineno):
                lines[index] = ""
    return "\n".join(lines)
