"""The connection to a program's process, from the process that tests it.

Values come over as types of Python (dph.sandbox.values), and what they are compared with is
compared here. What is no plain value is a ``Remote`` (dph.sandbox.remote_object).
"""

import builtins
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from dph.sandbox.arguments import take_over
from dph.sandbox.channel import Channel, ChannelBrokenError, ChannelClosedError
from dph.sandbox.remote_object import Remote, awaitable, reference, short
from dph.sandbox.values import BadValueError, decode, encode

_INPUT = "input"
_ENDS_LOOPS = (StopIteration, StopAsyncIteration)
"""Never raised for a program: ``all(map(f, xs))`` would end with them, and be true."""


class ProgramGoneError(BaseException):
    """The program's process ended, or sent what is no answer. Not for tests to catch."""


class ProgramError(Exception):
    """The program raised an exception of its own, or SystemExit."""


class RemoteProgram:
    """The connection to a program, and what is known of it.

    ``names`` are the global names that it has, ``classes`` the bases of those that are classes.
    ``failure`` says why it cannot be used any more, ``last`` tells of the latest call.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._objects: dict[Any, Remote] = {}
        self._functions: list[Callable[..., Any]] = []
        self._names: dict[str, Any] = {}
        self._exceptions: dict[str, type[Exception]] = {}
        self._left: list[tuple[tuple[Any, ...], Any]] = []
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
        return _said(message[1], str(message[2]))

    def named(self, name: str) -> Any:
        """What the program has under a global name; its exceptions are classes here too."""
        if name not in self._names:
            bases = self.classes.get(name, [])
            if "BaseException" in bases:
                self._names[name] = self.exception(bases)
            else:
                self._names[name] = Remote(self, {"name": name}, name)
        return self._names[name]

    def constant(self, name: str) -> Any:
        """The value of a global name."""
        named = self.named(name)
        return self.ask("self", named) if isinstance(named, Remote) else named

    def ask(self, request: str, remote: Remote, *arguments: Any) -> Any:
        """The value that a request gives.

        Raises:
            ProgramGoneError: the program's process ended.
            Exception: what the program raised, if Python has that exception; else ProgramError.
        """
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
        if changed := extras.get("changed"):
            self._left.append((arguments[:2], changed))
        if kind == "raised":
            self._raise([str(each) for each in content[0]], str(content[1]), extras)
        value = self._decoded(content[0])
        if value is None:
            self.settle()
        return value

    def settle(self) -> None:
        """Change the arguments of earlier calls as the program did.

        Where a call returned something, that waits for the next statement: a function that changes
        what the expected value is computed from would be right by its own doing.
        """
        left, self._left = self._left, []
        for values, changed in left:
            try:
                take_over(values, changed, self._resolve)
            except BadValueError as error:
                self._gone(f"it sent what is no value: {error}")

    def exception(self, bases: list[str]) -> type[Exception]:
        """A class for an exception of the program's: tests catch it by its name or its bases."""
        name = bases[0]
        if name not in self._exceptions:
            own = [each for each in bases[1:] if _builtin(each) is None and each != "object"]
            known = [kind for each in bases[1:] if (kind := _builtin(each)) is not None]
            known = [k for k in known if issubclass(k, Exception) and not _ends_loops(k)]
            parent = self.exception([own[0], *bases[bases.index(own[0]) + 1 :]]) if own else None
            leaf = parent or next(iter(known), ProgramError)
            leaf = ProgramError if leaf is Exception else leaf
            self._exceptions[name] = type(name, (leaf,), {"__module__": "program"})
        return self._exceptions[name]

    def _call_function(self, content: list[Any]) -> None:
        try:
            number, arguments = content
            function = builtins.input if number == _INPUT else self._functions[number]
            value = function(*[self._decoded(each) for each in arguments])
            self._send(["returned", encode(value, self._refer)])
        except Exception as error:  # noqa: BLE001 - told to the program, which called it
            self._send(["failed", type(error).__name__, str(error)])

    def _print(self, text: Any) -> None:
        """What the program printed, where the tests' own standard output goes."""
        if isinstance(text, str) and text:
            sys.stdout.write(text)

    def _raise(self, bases: list[str], text: str, extras: Mapping[str, Any]) -> NoReturn:
        self.last = f"{self.last.partition(' gave ')[0]} raised {_said(bases, text)}"
        self.out_of_memory = self.out_of_memory or "MemoryError" in bases
        raise self._made(bases, text, extras)

    def _made(self, bases: list[str], text: str, extras: Mapping[str, Any]) -> Exception:
        kinds = [kind for each in bases if (kind := _builtin(each)) is not None]
        usual = [kind for kind in kinds if issubclass(kind, Exception)]
        if not usual or any(map(_ends_loops, usual)):
            return _of_program(ProgramError(_said(bases, text)))
        own = bool(bases) and _builtin(bases[0]) is None
        kind = self.exception(bases) if own else usual[0]
        kind = ProgramError if kind is Exception else kind
        try:
            given = [self._decoded(each) for each in extras.get("args", [text])]
            error = kind(*given)
            for name, value in extras.get("attributes", {}).items():
                setattr(error, str(name), self._decoded(value))
        except (TypeError, ValueError, AttributeError):
            error = ProgramError(text)
        return _of_program(error)

    def _decoded(self, data: Any) -> Any:
        try:
            return decode(data, self._resolve)
        except (BadValueError, RecursionError) as error:
            self._gone(f"it sent what is no value: {error}")

    def _resolve(self, name: str, content: Any) -> Any:
        if name == "exception":
            return self.exception([str(each) for each in content])
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
        if isinstance(value, type) and value in self._exceptions.values():
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


def is_of_program(error: BaseException) -> bool:
    """Whether the program raised it, and not the tests themselves."""
    return isinstance(error, ProgramError) or getattr(error, "of_program", False)


def _of_program(error: Exception) -> Exception:
    error.of_program = True  # type: ignore[attr-defined]
    return error


def _builtin(name: str) -> Any:
    """Python's own class of exceptions with a name, if there is one."""
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _ends_loops(kind: type[BaseException]) -> bool:
    return issubclass(kind, _ENDS_LOOPS)


def _said(bases: list[str], text: str) -> str:
    """An exception in one line."""
    name = str(bases[0]) if bases and bases[0] else "an exception"
    return f"{name}: {text}" if text else name


__all__ = [
    "ProgramError",
    "ProgramGoneError",
    "Remote",
    "RemoteProgram",
    "is_of_program",
    "short",
]
