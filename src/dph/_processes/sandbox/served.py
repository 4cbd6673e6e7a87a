"""A program whose functions are called: it is loaded, then answers until nobody asks any more.

Nothing here decides anything: the process is the program's, and what it sends are values.
"""

import types
from collections.abc import Iterator
from itertools import islice
from typing import Any

from dph._processes.sandbox.source import whole_source
from dph._processes.sandbox.values import (
    BadValueError,
    Channel,
    ChannelBrokenError,
    ChannelClosedError,
    bases_of,
    decode,
    encode,
)

_REASON_CHARACTERS = 300


def serve_calls(job: dict[str, Any], channel: Channel, module: types.ModuleType) -> None:
    """Load the program, say what it defines, then answer."""
    try:
        source = whole_source(job["source"], job["prefix"], job["entry_point"])
        exec(compile(source, "<program>", "exec"), module.__dict__)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the program cannot be used
        channel.send(["failed", bases_of(type(error)), text_of(error)])
        return
    names = [name for name in list(module.__dict__) if isinstance(name, str)]
    channel.send(["loaded", names])
    served = _Served(module.__dict__)
    while True:
        try:
            message = channel.receive()
        except ChannelClosedError:
            return
        try:
            channel.send(served.answer(*message))
        except ChannelBrokenError as error:
            channel.send(["raised", ["MemoryError", "Exception"], str(error), None])


def text_of(error: BaseException) -> str:
    """The text of an exception, whatever its class makes of it."""
    try:
        text = error.args[0] if type(error) is KeyError and error.args else error
        return str(text)[:_REASON_CHARACTERS]
    except BaseException:  # noqa: BLE001 - it is the program's own class
        return ""


class _Served:
    """The program's functions, and the iterators that they returned."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._iterators: list[Iterator[Any]] = []

    def answer(self, request: str, *content: Any) -> list[Any]:
        """``value`` and what it is, or ``raised``, the exception's class, its text and values."""
        try:
            value = self._next(*content) if request == "next" else self._call(*content)
            return ["value", encode(value, self._refer)]
        except BaseException as error:  # noqa: BLE001 - it is the caller's to judge
            return ["raised", bases_of(type(error)), text_of(error), _arguments(error)]

    def _call(self, name: str, positional: Any, named: Any) -> Any:
        name, _, method = name.partition(".")
        if name not in self._names:
            raise NameError(f"the program defines no {name}")
        function = self._names[name]
        if method:
            function = getattr(function(), method)
        return function(*decode(positional, _nothing), **decode(named, _nothing))

    def _next(self, number: int, most: int) -> list[Any]:
        """The next elements of an iterator that may have no end."""
        return list(islice(self._iterators[number], most))

    def _refer(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Iterator):
            self._iterators.append(value)
            return {"iterator": len(self._iterators) - 1}
        return {"object": type(value).__name__[:100]}


def _nothing(name: str, _: Any) -> Any:
    raise BadValueError(f"{name!r} is not a value")


def _arguments(error: BaseException) -> Any:
    """Arguments of one of Python's own exceptions, None where they are no plain values."""
    if type(error).__module__ != "builtins":
        return None
    try:
        return encode(list(error.args), lambda value: _nothing(type(value).__name__, value))
    except (TypeError, ValueError, RecursionError):
        return None
