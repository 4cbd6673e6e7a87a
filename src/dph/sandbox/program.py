"""The process that holds a program: a script with its input, or functions that are called.

Nothing here decides anything. The process is the program's, it may do with it what it can; what
leaves it is the script's output, or values, and others judge them.
"""

import atexit
import os
import random
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from dph.sandbox.channel import Channel, ChannelBrokenError, ChannelClosedError, read_document
from dph.sandbox.source import whole_source
from dph.sandbox.values import BadValueError, decode, encode

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
        os.write(2, describe(error).encode("utf-8", "replace"))
        os._exit(NOT_LOADED)
    status = 0
    try:
        exec(code, module.__dict__)
    except SystemExit as error:
        status = _exit_status(error)
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


def _exit_status(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return int(error.code or 0) & 0xFF
    os.write(2, f"\n{error.code}".encode("utf-8", "replace"))
    return 1


def _module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules[name] = module
    return module


def describe(error: BaseException) -> str:
    """An exception in one line."""
    name, text = type(error).__name__, " ".join(_text(error).split())
    return (f"{name}: {text}" if text else name)[:_REASON_CHARACTERS]


def _text(error: BaseException) -> str:
    try:
        text = error.args[0] if type(error) is KeyError and error.args else error
        return str(text)[:_REASON_CHARACTERS]
    except BaseException:  # noqa: BLE001 - it is the program's own class
        return ""


def _serve_calls(job: dict[str, Any], channel: Channel) -> None:
    """Load the program, say what it defines, then answer until nobody asks any more."""
    module = _module("program")
    try:
        source = whole_source(job["source"], job["prefix"], job["entry_point"])
        exec(compile(source, "<program>", "exec"), module.__dict__)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the program cannot be used
        channel.send(["failed", _bases(error), _text(error)])
        return
    names = [name for name in list(module.__dict__) if isinstance(name, str)]
    channel.send(["loaded", names])
    served = _Served(module.__dict__, channel)
    while True:
        try:
            message = channel.receive()
        except ChannelClosedError:
            return
        served.answer(message)


def _bases(error: BaseException) -> list[str]:
    return [base.__name__ for base in type(error).__mro__]


class _Served:
    """What the other side knows of: the program's names, and objects that it was told of."""

    def __init__(self, names: dict[str, Any], channel: Channel) -> None:
        self._names = names
        self._channel = channel
        self._objects: dict[int, Any] = {}
        self._requests: dict[str, Callable[..., Any]] = {
            "call": lambda target, positional, named: target(*positional, **dict(named)),
            "get": getattr,
            "set": setattr,
            "item": lambda target, key: target[key],
            "size": len,
            "text": str,
            "items": lambda target, most: _first(target, most),
        }

    def answer(self, message: Any) -> None:
        """Do what is asked and send what came of it, with arguments that were changed."""
        try:
            name, *data = message
            arguments = [decode(each, self._resolve) for each in data]
            value = self._requests[name](*arguments)
            if isinstance(value, types.CoroutineType):
                value = _awaited(value)
            answer = ["value", encode(value, self._refer), self._changed(arguments[1:], data[1:])]
        except BaseException as error:  # noqa: BLE001 - it is the caller's to judge
            answer = ["raised", _bases(error), _text(error)]
        try:
            self._channel.send(answer)
        except ChannelBrokenError as error:
            self._channel.send(["raised", ["MemoryError"], str(error)])

    def _changed(self, arguments: list[Any], before: list[Any]) -> Any:
        """The arguments after the call, where it changed them."""
        after = [encode(each, self._refer) for each in arguments]
        return None if after == before else after

    def _refer(self, value: Any) -> dict[str, Any]:
        self._objects[id(value)] = value  # kept, so that the number stays its own
        return {"object": [id(value), type(value).__name__[:100], callable(value)]}

    def _resolve(self, name: str, content: Any) -> Any:
        if name == "name":
            return self._names[content]
        if name == "object":
            return self._objects[content[0]]
        if name == "function":
            return self._function(int(content))
        raise BadValueError(f"{name!r} is no value")

    def _function(self, number: int) -> Callable[..., Any]:
        """A function of the other side, to be called from here while it waits."""

        def function(*positional: Any) -> Any:
            arguments = [encode(each, self._refer) for each in positional]
            self._channel.send(["function", number, arguments])
            while True:
                message = self._channel.receive()
                if message[0] == "returned":
                    return decode(message[1], self._resolve)
                if message[0] == "failed":
                    raise RuntimeError(message[1])
                self.answer(message)

        return function


def _first(values: Any, most: int) -> list[Any]:
    """The first elements of something that may have no end."""
    found = []
    for value in values:
        found.append(value)
        if len(found) >= most:
            break
    return found


def _awaited(coroutine: Any) -> Any:
    import asyncio  # noqa: PLC0415 - few programs need it

    return asyncio.run(coroutine)
