"""The connection to a program's process, from the process that tests it.

Values come over as types of Python (dph._processes.sandbox.values), and what they are compared with
is compared here. What is no plain value is a ``Remote`` (dph._processes.sandbox.remote_object).
"""

import builtins
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

from dph._processes.sandbox.channel import Channel, ChannelBrokenError, ChannelClosedError
from dph._processes.sandbox.exceptions import Exceptions, ProgramError, is_of_program, said
from dph._processes.sandbox.left import Left, Statement
from dph._processes.sandbox.remote_object import Remote, awaitable, reference, short
from dph._processes.sandbox.values import BadValueError, decode, encode

_INPUT = "input"


class ProgramGoneError(BaseException):
    """The program's process ended, or sent what is no answer. Not for tests to catch."""


class RemoteProgram:
    """The connection to a program, and what is known of it.

    ``names`` are the global names that it has, ``classes`` the bases of those that are classes,
    ``left`` holds what calls changed. ``asked`` counts what it was asked.
    ``failure`` says why it cannot be used any more, ``last`` tells of the latest call.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._objects: dict[Any, Remote] = {}
        self._functions: list[Callable[..., Any]] = []
        self._names: dict[str, Any] = {}
        self.exceptions = Exceptions()
        self.left = Left(self._resolve)
        self.asked = 0
        self.names: frozenset[str] = frozenset()
        self.classes: Mapping[str, list[str]] = {}
        self.failure = ""
        self.last = ""
        self.out_of_memory = False
        self.awaits = False

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
            kinds = message[2] if len(message) > 2 and isinstance(message[2], dict) else {}
            self.classes = {name: [str(b) for b in bases] for name, bases in kinds.items()}
            return ""
        self.out_of_memory = "MemoryError" in message[1]
        return said(message[1], str(message[2]))

    def named(self, name: str) -> Any:
        """What the program has under a global name; its exceptions are classes here too."""
        if name not in self._names:
            bases = self.classes.get(name, [])
            if "BaseException" in bases:
                self.asked += 1
                self._names[name] = self.exceptions.of(bases)
            else:
                self._names[name] = Remote(self, {"name": name}, name)
        return self._names[name]

    def constant(self, name: str) -> Any:
        """The value of a global name."""
        named = self.named(name)
        if not isinstance(named, Remote):
            return named
        value, asked = self.ask("self", named), self.asked
        self.asked = asked - isinstance(value, Remote)  # a function is used when it is called
        return value

    def ask(self, request: str, remote: Remote, *arguments: Any) -> Any:
        """The value that a request gives.

        Raises:
            ProgramGoneError: the program's process ended.
            Exception: what the program raised, if Python has that exception; else ProgramError.
        """
        self.asked += 1
        data = [encode(each, self._refer) for each in arguments]
        self._send([request, reference(remote), *data])
        while True:
            kind, *content = self._receive()
            if kind != "function":
                break
            self._call_function(content)
        if kind not in ("raised", "value") or len(content) < 2:
            self._gone("it sent what is no answer")
        extras = content[-1] if isinstance(content[-1], dict) else {}
        self._print(extras.get("printed"))
        values, changed = arguments[:2] if request == "call" else (), extras.get("changed")
        try:
            value = self.left.returned(values, changed, None if kind == "raised" else content[0])
        except (BadValueError, RecursionError) as error:
            self._gone(f"it sent what is no value: {error}")
        if kind == "raised":
            self._raise([str(each) for each in content[0]], str(content[1]), extras)
        return value

    def is_checking(self) -> bool:
        """Whether the statement of the tests that is under way checks something."""
        return self.left.kind() is Statement.CHECKS

    def settle(self) -> None:
        """Change the arguments of earlier calls as the program did.

        Raises:
            ProgramGoneError: what it sent are no changes of them.
        """
        self.begin(None)

    def begin(self, frame: FrameType | None, kind: int = Statement.CHECKS) -> None:
        """A statement of the tests begins (dph._processes.sandbox.left).

        Raises:
            ProgramGoneError: what the program sent are no changes of arguments.
        """
        try:
            self.left.begin(frame, kind)
        except BadValueError as error:
            self._gone(f"it sent what is no value: {error}")

    def _call_function(self, content: list[Any]) -> None:
        try:
            number, arguments, *more = content
            function = builtins.input if number == _INPUT else self._functions[number]
            named = {str(name): self._decoded(each) for name, each in dict(*more).items()}
            value = function(*[self._decoded(each) for each in arguments], **named)
            self._send(["returned", encode(value, self._refer)])
        except Exception as error:  # noqa: BLE001 - told to the program, which called it
            self._send(["failed", type(error).__name__, str(error)])

    def _print(self, text: Any) -> None:
        """What the program printed, where the tests' own standard output goes."""
        if isinstance(text, str) and text:
            sys.stdout.write(text)

    def _raise(self, bases: list[str], text: str, extras: Mapping[str, Any]) -> NoReturn:
        self.last = f"{self.last.partition(' gave ')[0]} raised {said(bases, text)}"
        self.out_of_memory = self.out_of_memory or "MemoryError" in bases
        raise self.exceptions.made(bases, text, extras, self._decoded)

    def _decoded(self, data: Any) -> Any:
        try:
            return decode(data, self._resolve)
        except (BadValueError, RecursionError) as error:
            self._gone(f"it sent what is no value: {error}")

    def _resolve(self, name: str, content: Any) -> Any:
        if name == "exception":
            return self.exceptions.of([str(each) for each in content])
        if name == "coroutine" and self.awaits:
            return awaitable(self._object(content))
        if name == "coroutine":
            return self.ask("await", self._object(content))
        if name != "object":
            raise BadValueError(f"{name!r} is no value")
        return self._object(content)

    def _object(self, content: Any) -> Remote:
        number, kind, _ = content
        if number not in self._objects:
            self._objects[number] = Remote(self, {"object": content}, f"<{kind}>")
        return self._objects[number]

    def _refer(self, value: Any) -> dict[str, Any]:
        if isinstance(value, Remote):
            return reference(value)
        if isinstance(value, type) and value in self.exceptions:
            return {"name": value.__name__}
        if not callable(value):
            raise TypeError(
                f"a value of type {type(value).__name__} cannot be given to the program"
            )
        if (module := getattr(value, "__module__", None)) in sys.stdlib_module_names:
            name = getattr(value, "__qualname__", "")
            if "<" not in name:
                return {"callable": [module, name]}
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
        if not isinstance(message, list) or not 2 <= len(message) <= 4:
            self._gone("it sent what is no message")
        return message

    def _gone(self, why: str) -> NoReturn:
        self.failure = why or "the program ended"
        raise ProgramGoneError(self.failure)


__all__ = [
    "ProgramError",
    "ProgramGoneError",
    "Remote",
    "RemoteProgram",
    "is_of_program",
    "short",
]
