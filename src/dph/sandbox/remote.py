"""A program's functions and objects, seen from the process that tests them.

Values come over as built-in types (dph.sandbox.values), and all comparisons are made here. What is
no plain value is a Remote: it can be called, its attributes read and set, its elements read,
and each of those gives values again. It is equal to itself alone and has no truth value, so that
nothing a program defines decides an assertion.
"""

import builtins
import reprlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from dph.sandbox.channel import Channel, ChannelBrokenError, ChannelClosedError
from dph.sandbox.values import BadValueError, decode, encode

_MOST_ITEMS = 1_000_000


class ProgramGoneError(BaseException):
    """The program's process ended, or sent what is no answer. Not for tests to catch."""


class ProgramError(Exception):
    """The program raised an exception of its own, or SystemExit."""


class RemoteProgram:
    """The connection to a program, and what is known of it.

    ``names`` are the global names that it has, ``failure`` says why it cannot be used any more,
    ``last`` tells of the latest call.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._objects: dict[Any, Remote] = {}
        self._functions: list[Callable[..., Any]] = []
        self._names: dict[str, Remote] = {}
        self.names: frozenset[str] = frozenset()
        self.failure = ""
        self.last = ""
        self.out_of_memory = False

    def load(self) -> str:
        """Wait until the program is loaded; '', or what it raised.

        Raises:
            ProgramGoneError: its process ended.
        """
        message = self._receive()
        if message[0] not in ("loaded", "failed") or not isinstance(message[1], list):
            self._gone("it sent what is no message")
        if message[0] == "loaded":
            self.names = frozenset(str(name) for name in message[1])
            return ""
        self.out_of_memory = "MemoryError" in message[1]
        return _said(message[1], message[-1])

    def named(self, name: str) -> "Remote":
        """What the program has under a global name."""
        if name not in self._names:
            self._names[name] = Remote(self, {"name": name}, name)
        return self._names[name]

    def ask(self, request: str, remote: "Remote", *arguments: Any) -> Any:
        """The value that a request gives.

        Raises:
            ProgramGoneError: the program's process ended.
            Exception: what the program raised, if Python has that exception; else ProgramError.
        """
        data = [encode(each, self._refer) for each in arguments]
        self._send([request, _reference(remote), *data])
        while True:
            kind, *content = self._receive()
            if kind != "function":
                break
            self._call_function(content)
        if kind not in ("raised", "value") or len(content) != 2:
            self._gone("it sent what is no answer")
        if kind == "raised":
            self._raise(list(content[0]), str(content[1]))
        value = self._decoded(content[0])
        if value is None and content[1] is not None:
            self._take_over(arguments, self._decoded(content[1]))
        return value

    def _take_over(self, arguments: tuple[Any, ...], after: Any) -> None:
        """Change the arguments of a call as the program did.

        Only where it returned None: a function that changes what the expected value is computed
        from, and returns that, would be right by its own doing.
        """
        if len(arguments) == len(after) == 2 and isinstance(after[0], list):  # a call
            for argument, new in zip(arguments[0], after[0], strict=False):
                _change(argument, new)

    def _call_function(self, content: list[Any]) -> None:
        try:
            number, arguments = content
            value = self._functions[number](*[self._decoded(each) for each in arguments])
            self._send(["returned", encode(value, self._refer)])
        except Exception as error:  # noqa: BLE001 - told to the program, which called it
            self._send(["failed", f"{type(error).__name__}: {error}"])

    def _raise(self, bases: list[str], text: str) -> NoReturn:
        self.last = f"{self.last.partition(' gave ')[0]} raised {_said(bases, text)}"
        for base in bases:
            found = getattr(builtins, str(base), None)
            if isinstance(found, type) and issubclass(found, Exception):
                self.out_of_memory = self.out_of_memory or found is MemoryError
                raise ProgramError(text) if found is Exception else _made(found, text)
        raise ProgramError(_said(bases, text))

    def _decoded(self, data: Any) -> Any:
        try:
            return decode(data, self._resolve)
        except (BadValueError, RecursionError) as error:
            self._gone(f"it sent what is no value: {error}")

    def _resolve(self, name: str, content: Any) -> "Remote":
        if name != "object":
            raise BadValueError(f"{name!r} is no value")
        number, kind, _ = content
        if number not in self._objects:
            self._objects[number] = Remote(self, {"object": content}, f"<{kind}>")
        return self._objects[number]

    def _refer(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Remote):
            return _reference(value)
        if not callable(value):
            raise TypeError(
                f"a value of type {type(value).__name__} cannot be given to the program"
            )
        self._functions.append(value)
        return {"function": len(self._functions) - 1}

    def _send(self, message: Any) -> None:
        try:
            self._channel.send(message)
        except ChannelClosedError:
            self._gone("")

    def _receive(self) -> Any:
        if self.failure:
            raise ProgramGoneError(self.failure)
        try:
            message = self._channel.receive()
        except ChannelClosedError:
            self._gone("")
        except ChannelBrokenError as error:
            self._gone(f"it sent {error}")
        if not isinstance(message, list) or len(message) not in (2, 3):
            self._gone("it sent what is no message")
        return message

    def _gone(self, why: str) -> NoReturn:
        self.failure = why or "the program ended"
        raise ProgramGoneError(self.failure)


class Remote:
    """Something that the program has."""

    __slots__ = ("_program", "_reference", "_text")

    def __init__(self, program: RemoteProgram, reference: dict[str, Any], text: str) -> None:
        object.__setattr__(self, "_program", program)
        object.__setattr__(self, "_reference", reference)
        object.__setattr__(self, "_text", text)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """What the program's function or class gives for these arguments."""
        program = _program(self)
        given = ", ".join(map(_short, positional))
        program.last = f"{self!r}({given})"[:200]
        value = program.ask("call", self, list(positional), named)
        program.last = f"{program.last} gave {_short(value)}"
        return value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _program(self).ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _program(self).ask("set", self, name, value)

    def __getitem__(self, key: Any) -> Any:
        return _program(self).ask("item", self, key)

    def __len__(self) -> int:
        size = _program(self).ask("size", self)
        if not isinstance(size, int):
            raise TypeError(f"a length is a number, got {type(size).__name__}")
        return size

    def __iter__(self) -> Iterator[Any]:
        return iter(_program(self).ask("items", self, _MOST_ITEMS))

    def __next__(self) -> Any:
        found = _program(self).ask("items", self, 1)
        if not found:
            raise StopIteration
        return found[0]

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} is no value that a test could look into")

    def __str__(self) -> str:
        text = _program(self).ask("text", self)
        if type(text) is not str:
            raise TypeError(f"a text is expected, got {type(text).__name__}")
        return text

    def __repr__(self) -> str:
        return str(object.__getattribute__(self, "_text"))


def _program(remote: Remote) -> RemoteProgram:
    program: RemoteProgram = object.__getattribute__(remote, "_program")
    return program


def _reference(remote: Remote) -> dict[str, Any]:
    reference: dict[str, Any] = object.__getattribute__(remote, "_reference")
    return reference


def _said(bases: list[str], text: str) -> str:
    """An exception in one line."""
    name = str(bases[0]) if bases and bases[0] else "an exception"
    return f"{name}: {text}" if text else name


def _made(kind: type[Exception], text: str) -> Exception:
    """An exception of Python with a text; some take more than that."""
    try:
        return kind(text)
    except TypeError:
        return ProgramError(text)


def _change(target: Any, after: Any) -> None:
    """Change an argument as the program did, in place."""
    if type(target) is not type(after):
        return
    if isinstance(target, list | bytearray):
        target[:] = after
    elif isinstance(target, dict):
        target.clear()
        target.update(after)
    elif isinstance(target, set):
        target.clear()
        target |= after
    elif isinstance(target, deque):
        target.clear()
        target.extend(after)


def _short(value: Any) -> str:
    try:
        return _REPR.repr(value)
    except Exception as error:  # noqa: BLE001 - a number of too many digits, say
        return f"<{type(value).__name__}: {type(error).__name__}>"


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60
