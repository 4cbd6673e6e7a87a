"""A program whose functions are called: it is loaded, then answers until nobody asks any more.

Nothing here decides anything: the process is the program's, and what it sends are values.
"""

import builtins
import io
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

from dph._processes.sandbox.left import KEPT, GivenContainers, Watched
from dph._processes.sandbox.names import whole_source
from dph._processes.sandbox.remote_object import OPERATIONS
from dph._processes.sandbox.values import (
    TYPES,
    BadValueError,
    Channel,
    ChannelBrokenError,
    ChannelClosedError,
    bases_of,
    decode,
    encode,
)

_REASON_CHARACTERS = 300
_PRINTED_CHARACTERS = 1_000_000
_MOST_ATTRIBUTES = 20


def _references() -> int:
    value: list[Any] = []
    return sys.getrefcount(value)


_REFERENCES = _references()
"""References to a value that nothing but one variable has."""


def serve_calls(job: dict[str, Any], channel: Channel, module: types.ModuleType) -> None:
    """Load the program, say what it defines, then answer."""
    sys.stdout, sys.stderr = printed = _Printed(), _Printed()
    served = _Served(module.__dict__, channel, printed)
    builtins.input, sys.stdin = served.input, _Input(served.line)
    try:
        source = whole_source(job["source"], job["prefix"], job["entry_point"])
        exec(compile(source, "<program>", "exec"), module.__dict__)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the program cannot be used
        channel.send(["failed", bases_of(type(error)), text_of(error)])
        return
    names = [name for name in list(module.__dict__) if isinstance(name, str)]
    classes = {name: bases_of(module.__dict__[name]) for name in names if _is_own(module, name)}
    channel.send(["loaded", names, classes])
    served.is_loaded = True
    for each in printed:
        each.taken()
    while True:
        try:
            message = channel.receive()
        except ChannelClosedError:
            return
        served.answer(message)


def text_of(error: BaseException) -> str:
    """The text of an exception, whatever its class makes of it."""
    try:
        text = error.args[0] if type(error) is KeyError and error.args else error
        return str(text)[:_REASON_CHARACTERS]
    except BaseException:  # noqa: BLE001 - it is the program's own class
        return ""


class _Printed(io.StringIO):
    """Standard output of a program, as far as it is not too much."""

    def write(self, text: str, /) -> int:
        if self.tell() < _PRINTED_CHARACTERS:
            super().write(text[:_PRINTED_CHARACTERS])
        return len(text)

    def taken(self) -> str:
        """Text printed since it was last asked for."""
        text = self.getvalue()
        if text:
            self.seek(0)
            self.truncate()
        return text


class _Input(io.TextIOBase):
    """Standard input of a program: the tests' own, which they may have replaced."""

    def __init__(self, line: Callable[[], str]) -> None:
        vars(self).update(buffer=sys.stdin.buffer, fileno=sys.stdin.fileno)
        vars(self).update(readline=lambda *_: line(), read=lambda *_: "".join(self))


class _Served:
    """Objects known to the other side: the program's names, and objects that it was told of."""

    def __init__(
        self, names: dict[str, Any], channel: Channel, printed: Iterable[_Printed]
    ) -> None:
        self.is_loaded = False
        self._names = names
        self._channel = channel
        self._printed = printed
        self._objects: dict[int, Any] = {}
        self._raised: dict[int, tuple[int, BaseException]] = {}
        self._kinds: dict[str, type[BaseException]] = {}
        self._given = GivenContainers(self._refer)
        self._requests: dict[str, Callable[..., Any]] = {
            "call": lambda target, positional, named: target(*positional, **dict(named)),
            "self": lambda target: target,
            "get": getattr,
            "set": setattr,
            "unset": delattr,
            "item": lambda target, key: target[key],
            "size": len,
            "text": str,
            "repr": repr,
            "format": format,
            "hash": hash,
            "iterate": _iterator,
            "items": _next_items,
            "enter": lambda target: target.__enter__(),
            "leave": lambda target: target.__exit__(None, None, None),
            "await": _awaited,
            "is a": lambda kind, value: isinstance(value, kind),
            "is below": lambda kind, other: issubclass(other, kind),
            "change": self._given.change,
            "equals all": _equals_all,
            "operate": lambda _, name, operands: OPERATIONS[name](*operands),
        }

    def answer(self, message: Any) -> None:
        """Do what is asked and send what came of it, with arguments that were changed."""
        extras: dict[str, Any] = {}
        watched = None
        try:
            name, *data = message
            arguments = [decode(each, self._resolve) for each in data]
            watched = Watched(tuple(arguments[1:3])) if name == "call" else None
            value = self._requests[name](*arguments)
            if watched and _is_made_for_tests(arguments[0], value):
                answer = ["value", self._refer(value)]
            else:
                is_kept = type(value) in KEPT and sys.getrefcount(value) > _REFERENCES
                write = (
                    watched.writer(self._refer) if watched else partial(encode, refer=self._refer)
                )
                data = write(value)
                if is_kept and not (isinstance(data, dict) and "same" in data):
                    data = self._given.give(value)
                answer = ["value", data]
        except BaseException as error:  # noqa: BLE001 - it is the caller's to judge
            answer = ["raised", bases_of(type(error)), text_of(error)]
            extras = self._parts(error)
            if id(error) in self._raised:
                extras["given"] = self._raised[id(error)][0]
        try:
            if watched and (changed := watched.changes(self._refer)):
                extras["changed"] = changed
            if kept := self._given.changes():
                extras["kept"] = kept
        except BaseException as error:  # noqa: BLE001 - what cannot be told of ends the call
            answer = ["raised", bases_of(type(error)), text_of(error)]
        if any(printed := [each.taken() for each in self._printed]):
            extras["printed"] = printed
        try:
            self._channel.send([*answer, extras or None])
        except ChannelBrokenError as error:
            self._channel.send(["raised", ["MemoryError", "Exception"], str(error), None])

    def input(self, prompt: object = "", /) -> str:
        """Python's ``input``: the tests' own; while the program is loaded there is nothing."""
        if not self.is_loaded:
            raise EOFError("EOF when reading a line")
        return str(self._asked("input", [str(prompt)]))

    def line(self) -> str:
        """The next line of the tests' standard input, '' at its end."""
        return str(self._asked("line", [])) if self.is_loaded else ""

    def _parts(self, error: BaseException) -> dict[str, Any]:
        """An exception's arguments and attributes, as far as they are values."""
        try:
            arguments = [encode(each, self._refer) for each in error.args]
            found = list(vars(error).items())[:_MOST_ATTRIBUTES]
            attributes = {str(name): encode(value, self._refer) for name, value in found}
        except BaseException:  # noqa: BLE001 - then its text has to do
            return {}
        return {"args": arguments, "attributes": attributes}

    def _refer(self, value: Any) -> dict[str, Any]:
        if isinstance(value, type) and issubclass(value, BaseException):
            return {"exception": bases_of(value)}
        self._objects[id(value)] = value  # kept, so that the number stays its own
        named = [id(value), type(value).__name__[:100], callable(value)]
        return {"coroutine" if isinstance(value, types.CoroutineType) else "object": named}

    def _resolve(self, name: str, content: Any) -> Any:
        if name == "name":
            return self._names[content]
        if name == "object":
            return self._objects[content[0]]
        if name == "function":
            return lambda *given, **named: self._asked(int(content), given, named)
        if name == "exception":
            return self._kind(content)
        if name == "iterator":
            return self._elements(int(content))
        if name == "callable":
            found: Any = import_module(content[0])
            for part in content[1].split("."):
                found = getattr(found, part)
            return found
        raise BadValueError(f"{name!r} is not a value")

    def _elements(self, function: int) -> Iterator[Any]:
        """Elements of an iterator of the other side, each when it is asked for."""
        while found := self._asked(function, ()):
            yield found[0]

    def _asked(self, function: int | str, positional: Any, named: Any = ()) -> Any:
        """Call a function of the other side, which waits for this one."""
        arguments = [encode(each, self._refer) for each in positional]
        more = {name: encode(each, self._refer) for name, each in dict(named).items()}
        self._channel.send(["function", function, arguments, more])
        while True:
            message = self._channel.receive()
            if message[0] == "returned":
                return decode(message[1], self._resolve)
            if message[0] == "failed":
                raise self._exception(*message[1:])
            self.answer(message)

    def _exception(self, number: int, bases: list[str], arguments: Any) -> BaseException:
        """The exception of a function of the tests."""
        kind, given = self._kind(bases), decode(arguments, self._resolve)
        try:
            error = kind(*given)
        except TypeError:
            error = kind.__new__(kind)
            error.args = tuple(given)
        self._raised[id(error)] = (number, error)
        return error

    def _kind(self, bases: list[str]) -> type[BaseException]:
        """A class of exceptions: Python's, the program's, or the tests' own below one of those."""
        found = getattr(builtins, bases[0], self._names.get(bases[0], self._kinds.get(bases[0])))
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            found = self._kinds[bases[0]] = type(bases[0], (self._kind(bases[1:]),), {})
        return found


def _is_own(module: types.ModuleType, name: str) -> bool:
    """Whether a name is a class that the program made, and not one of Python's plain types."""
    value = module.__dict__[name]
    return type(value).__mro__[-2:-1] == (type,) and value not in TYPES.values()


def _is_made_for_tests(target: Any, value: Any) -> bool:
    """Whether the tests made a container of a class of the program's, whose methods they test."""
    if not isinstance(target, type) or type(value) is not target:
        return False
    own = target.__module__ == "program" and target.__name__[:1].isupper()
    return own and issubclass(target, list | dict | set | deque)


def _equals_all(target: Any, others: list[Any]) -> bool:
    """Whether an object equals all others, where there are none an object of no kind."""
    try:
        return all(bool(target == other) for other in others or [object()])
    except Exception:  # noqa: BLE001 - it does not compare with anything
        return False


def _iterator(target: Any) -> Any:
    """Iterator over the elements; containers give all of them at once."""
    return iter(target)


def _next_items(iterator: Iterator[Any], most: int) -> list[Any]:
    """The next elements of an iterator that may have no end."""
    found: list[Any] = []
    for value in iterator:
        found.append(value)
        if len(found) >= most:
            break
    return found


def _awaited(coroutine: Any) -> Any:
    import asyncio  # noqa: PLC0415 - a third of what a fork would have to copy otherwise

    return asyncio.run(_of(coroutine))


async def _of(awaitable: Any) -> Any:
    return await awaitable
