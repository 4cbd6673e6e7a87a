"""The connection to a program's process, from the process that tests it.

Values come over as types of Python (dph._processes.sandbox.values), and what they are compared with
is compared here. What is no plain value is a ``Remote`` (dph._processes.sandbox.remote_object).
"""

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import RLock
from types import FrameType
from typing import Any, NoReturn

from dph._processes.sandbox.left import KeptContainers, Left, Statement
from dph._processes.sandbox.remote_object import Remote, awaitable, reference, short
from dph._processes.sandbox.values import (
    BadValueError,
    Channel,
    ChannelBrokenError,
    ChannelClosedError,
    bases_of,
    decode,
    encode,
)

__all__ = ["ProgramError", "ProgramGoneError", "Remote", "RemoteProgram", "is_of_program", "short"]


# Exceptions of a program as classes of the process that tests it.
#
# The program sends names: of the class, and of its bases. Python's own, and those of modules that
# the tests have loaded, are themselves; a program's own become classes of that name below the
# same bases, so that tests catch them by either.

_ENDS_LOOPS = (StopIteration, StopAsyncIteration)
"""Never raised for a program: ``all(map(f, xs))`` would end with them, and be true."""
_OF_FRAMEWORKS = frozenset({"unittest", "doctest", "bdb", "asyncio", "concurrent"})
"""Modules whose exceptions end or skip a test in place of failing it."""


class ProgramError(Exception):
    """The program raised an exception that is none of the tests' to catch by name."""


class Exceptions:
    """The classes that a program's exceptions have here."""

    def __init__(self) -> None:
        self._own: dict[str, type[Exception]] = {}

    def __contains__(self, kind: object) -> bool:
        return kind in self._own.values()

    def of(self, bases: Sequence[str]) -> type[Exception]:
        """A class for an exception of the program's: tests catch it by its name or its bases."""
        name = short_name(bases[0])
        if name not in self._own:
            own = [each for each in bases[1:] if _known(each) is None and each != "object"]
            known = [kind for each in bases[1:] if (kind := _known(each)) is not None]
            known = [kind for kind in known if _is_usual(kind)]
            parent = self.of([own[0], *bases[bases.index(own[0]) + 1 :]]) if own else None
            leaf = parent or next(iter(known), ProgramError)
            leaf = ProgramError if leaf is Exception else leaf
            own_text = {"__module__": "program", "__str__": _text}
            self._own[name] = type(name, (leaf,), own_text)
        return self._own[name]

    def made(
        self, bases: Sequence[str], text: str, parts: Mapping[str, Any], decode: Callable[..., Any]
    ) -> Any:
        """The exception with its arguments and attributes; what cannot be made is ProgramError."""
        kinds = [kind for each in bases if (kind := _known(each)) is not None]
        usual = [kind for kind in kinds if issubclass(kind, Exception)]
        if not usual or not all(map(_is_usual, usual)):
            if SystemExit in kinds:
                return _of_program(SystemExit(*map(decode, parts.get("args", [text]))))
            return _of_program(ProgramError(said(bases, text)))
        own = bool(bases) and _known(bases[0]) is None
        kind = self.of(bases) if own else usual[0]
        kind = ProgramError if kind is Exception else kind
        try:
            given = [decode(each) for each in parts.get("args", [text])]
            error = _new(kind, given)
            for name, value in parts.get("attributes", {}).items():
                setattr(error, str(name), decode(value))
        except (TypeError, ValueError, AttributeError):
            error = ProgramError(text)
        if own:
            error.program_text = text  # type: ignore[attr-defined]
        return _of_program(error)


def is_of_program(error: BaseException) -> bool:
    """Whether the program raised it, and not the tests themselves."""
    return isinstance(error, ProgramError) or getattr(error, "of_program", False)


def said(bases: Sequence[str], text: str) -> str:
    """An exception in one line."""
    name = short_name(str(bases[0])) if bases and bases[0] else "an exception"
    return f"{name}: {text}" if text else name


def short_name(name: str) -> str:
    """A class's name without its module.

    >>> short_name("json.decoder:JSONDecodeError")
    'JSONDecodeError'
    """
    return name.rpartition(":")[2]


def _new(kind: type[Exception], given: list[Any]) -> Exception:
    try:
        return kind(*given)
    except TypeError:  # its own arguments are not those that it hands to Exception
        if kind.__module__ == "builtins":
            raise
        error = kind.__new__(kind)
        error.args = tuple(given)
        return error


def _text(error: Any) -> str:
    """The text that the program's own class gives; of one that the tests made, its arguments."""
    own: str | None = getattr(error, "program_text", None)
    if own is not None:
        return own
    return str(error.args[0]) if len(error.args) == 1 else str(error.args) if error.args else ""


def _of_program(error: Any) -> Any:
    error.of_program = True
    return error


def _known(name: str) -> Any:
    """The class of exceptions that a name stands for here, if there is one."""
    module, _, short = name.rpartition(":")
    top = module.partition(".")[0]
    if module and (top in _OF_FRAMEWORKS or top not in {*sys.stdlib_module_names, "numpy"}):
        return None
    found = getattr(sys.modules.get(module) if module else builtins, short, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _is_own(error: Exception) -> bool:
    """Whether the tests define its class, directly below one of Python's: it may pass through."""
    bases = bases_of(type(error))
    return _is_usual(type(error)) and _known(bases[0]) is None and not any(":" in b for b in bases)


def _is_usual(kind: type[BaseException]) -> bool:
    return issubclass(kind, Exception) and not issubclass(kind, _ENDS_LOOPS)


_STANDARD_INPUT: Mapping[Any, Callable[..., str]] = {
    "input": lambda prompt: builtins.input(prompt),
    "line": lambda: sys.stdin.readline(),
}


def _next_of(iterator: Iterator[Any]) -> list[Any]:
    """The next element, alone in a list; none where it ended."""
    for value in iterator:
        return [value]
    return []


_NO_ANSWER = "the program sent something other than an answer to the tests"
_NO_VALUE = "the program answered with something that is not a value"


class ProgramGoneError(BaseException):
    """The program's process ended, or did not answer. Not for tests to catch."""


class RemoteProgram:
    """The connection to a program, and what is known of it.

    ``names`` are the global names that it has, ``classes`` the bases of those that are classes,
    ``left`` holds what calls changed. ``asked`` counts what it was asked.
    ``failure`` says why it cannot be used any more, ``refused`` what the tests did that cannot be
    done with it, ``last`` tells of the latest call.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._objects: dict[Any, Remote] = {}
        self._functions: list[Callable[..., Any]] = []
        self._raised: list[Exception] = []
        self._names: dict[str, Any] = {}
        self.exceptions = Exceptions()
        self.left = Left(self._resolve)
        self._kept = KeptContainers(self._refer)
        self._lock = RLock()
        self.asked = 0
        self.names: frozenset[str] = frozenset()
        self.classes: Mapping[str, list[str]] = {}
        self.failure = ""
        self.refused = ""
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
            self._gone(_NO_ANSWER)
        if message[0] == "loaded":
            self.names = frozenset(str(name) for name in message[1])
            kinds = message[2] if len(message) > 2 and isinstance(message[2], dict) else {}
            self.classes = {name: [str(b) for b in bases] for name, bases in kinds.items()}
            return ""
        self.out_of_memory = "MemoryError" in message[1]
        return said(message[1], str(message[2]))

    def named(self, name: str) -> Any:
        """The program's object under a global name; its exceptions are classes here too."""
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
        with self._lock:  # tests may have threads
            self.asked += 1
            for number, value in self._kept.changes():
                self._exchange("change", number, value)
            return self._answer(
                self._exchange(request, reference(remote), *arguments), request, arguments
            )

    def _exchange(self, request: str, target: Any, *arguments: Any) -> list[Any]:
        """The answer to a request, while functions of the tests are called for the program."""
        self._send([request, target, *[encode(each, self._refer) for each in arguments]])
        message: list[Any] = self._receive()
        while message[0] == "function":
            self._call_function(message[1:])
            message = self._receive()
        return message

    def _answer(self, message: list[Any], request: str, arguments: tuple[Any, ...]) -> Any:
        """The value of an answer.

        Raises:
            ProgramGoneError: it is none.
            Exception: what the program raised.
        """
        kind, *content = message
        if kind not in ("raised", "value") or len(content) < 2:
            self._gone(_NO_ANSWER)
        extras = content[-1] if isinstance(content[-1], dict) else {}
        self._print(extras.get("printed"))
        self._decoded(extras.get("kept"))
        values, changed = arguments[:2] if request == "call" else (), extras.get("changed")
        try:
            value = self.left.returned(values, changed, None if kind == "raised" else content[0])
        except (BadValueError, RecursionError) as error:
            self._gone(f"{_NO_VALUE}: {error}")
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
            self._gone(f"{_NO_VALUE}: {error}")

    def _call_function(self, content: list[Any]) -> None:
        try:
            number, arguments, *more = content
            function = _STANDARD_INPUT.get(number) or self._functions[number]
            named = {str(name): self._decoded(each) for name, each in dict(*more).items()}
            value = function(*[self._decoded(each) for each in arguments], **named)
            self._send(["returned", encode(value, self._refer)])
        except Exception as error:  # noqa: BLE001 - told to the program, which called it
            self._raised.append(error)
            try:
                given = encode(list(error.args), self._refer)
            except (TypeError, RecursionError):
                given = [str(error)]
            self._send(["failed", len(self._raised) - 1, bases_of(type(error)), given])

    def _print(self, texts: Any) -> None:
        """Pass on the program's output to the tests' own standard output and standard error."""
        for text, stream in zip(texts or (), (sys.stdout, sys.stderr), strict=False):
            if isinstance(text, str) and text:
                stream.write(text)

    def _raise(self, bases: list[str], text: str, extras: Mapping[str, Any]) -> NoReturn:
        self.last = f"{self.last.partition(' gave ')[0]} raised {said(bases, text)}"
        self.out_of_memory = self.out_of_memory or "MemoryError" in bases
        given = extras.get("given")
        if (
            isinstance(given, int)
            and 0 <= given < len(self._raised)
            and _is_own(self._raised[given])
        ):
            raise self._raised[given]
        raise self.exceptions.made(bases, text, extras, self._decoded)

    def _decoded(self, data: Any) -> Any:
        try:
            return decode(data, self._resolve)
        except (BadValueError, RecursionError) as error:
            self._gone(f"{_NO_VALUE}: {error}")

    def _resolve(self, name: str, content: Any) -> Any:
        if name == "kept":
            return self._kept.returned(content, self._resolve)
        if name == "exception":
            return self.exceptions.of([str(each) for each in content])
        if name == "coroutine" and self.awaits:
            return awaitable(self._object(content))
        if name == "coroutine":
            return self.ask("await", self._object(content))
        if name != "object":
            raise BadValueError(f"{name!r} is not a value")
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
        if isinstance(value, type) and issubclass(value, BaseException):
            return {"exception": bases_of(value)}
        if isinstance(value, Iterator) and not hasattr(value, "read"):
            self._functions.append(partial(_next_of, value))
            return {"iterator": len(self._functions) - 1}
        if not callable(value):
            why = f"a value of type {type(value).__name__} cannot be given to the program"
            if type(value) is not object:  # which tests give a program that must refuse it
                self.refused = why
            raise TypeError(why)
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
            self._gone(f"the program sent {error}")
        if not isinstance(message, list) or not 2 <= len(message) <= 4:
            self._gone(_NO_ANSWER)
        return message

    def _gone(self, why: str) -> NoReturn:
        self.failure = why or "the program ended"
        raise ProgramGoneError(self.failure)
