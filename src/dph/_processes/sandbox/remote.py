"""The connection to a program's process, from the process that tests it.

A call sends plain values and gets one back, or an exception by the name of its class
(dph._processes.sandbox.values). Comparisons are made here, only among types of Python.
"""

import builtins
import reprlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from dph._processes.sandbox.values import (
    BadValueError,
    Channel,
    ChannelBrokenError,
    ChannelClosedError,
    decode,
    encode,
)

_ENDS_LOOPS = (StopIteration, StopAsyncIteration)
"""Never raised for a program: ``all(map(f, xs))`` would end with them, and be true."""


class ProgramError(Exception):
    """The program raised an exception that is none of Python's own."""


class ProgramGoneError(BaseException):
    """The program can be asked no more. Not for tests to catch."""


class RefusedError(BaseException):
    """The tests give the program what is no value. Not for them to catch."""


def is_of_program(error: BaseException) -> bool:
    """True if the program raised it, and not the tests themselves."""
    return getattr(error, "of_program", False)


def said(bases: Sequence[str], text: str) -> str:
    """An exception in one line; the class's name goes without its module."""
    name = str(bases[0]).rpartition(":")[2] if bases and bases[0] else "an exception"
    return f"{name}: {text}" if text else name


def _exception(bases: Sequence[str], text: str, arguments: Any) -> BaseException:
    """The exception that tests see of a program's."""
    kinds = [getattr(builtins, each, None) for each in bases]
    known = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseException)]
    if not any(issubclass(kind, Exception) for kind in known):
        return ProgramGoneError(said(bases, text))
    kind = known[0]
    error: BaseException = ProgramError(said(bases, text))
    if issubclass(kind, Exception) and kind is not Exception and kind not in _ENDS_LOOPS:
        try:
            error = kind(*([text] if arguments is None else arguments))
        except (TypeError, ValueError):  # it takes other arguments than those that it keeps
            error = ProgramError(said(bases, text))
    error.of_program = True  # type: ignore[attr-defined]
    return error


_NO_ANSWER = "the program sent something other than an answer to the tests"
_NO_VALUE = "the program answered with something that is not a value"
_ONE_BY_ONE, _CHUNK = 64, 1024


class RemoteProgram:
    """The connection to a program, and what is known of it.

    ``names`` are the global names that it has. ``asked`` counts what it was asked. ``failure`` says
    why it cannot be used any more, ``last`` tells of the latest call.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.asked = 0
        self.names: frozenset[str] = frozenset()
        self.failure = ""
        self.last = ""
        self.out_of_memory = False

    def load(self) -> str:
        """Wait until the program is loaded; '', or what it raised."""
        kind, content, *more = self._receive()
        if kind not in ("loaded", "failed") or not isinstance(content, list):
            self._gone(_NO_ANSWER)
        if kind == "loaded":
            self.names = frozenset(str(name) for name in content)
            return ""
        self.out_of_memory = "MemoryError" in content
        return said(content, str(*more[:1]))

    def function(self, name: str) -> Callable[..., Any]:
        """A function of the program, or ``Class.method`` of a new object each time.

        It raises ProgramGoneError if the process ended or returned no plain value, RefusedError if
        it is given none, else what the program raised.
        """

        def call(*positional: Any, **named: Any) -> Any:
            self.last = f"{name}({', '.join(map(short, positional))})"[:200]
            try:
                given = [encode(each, _no_reference) for each in (list(positional), named)]
            except (RecursionError, TypeError, ValueError, AttributeError) as error:
                raise RefusedError(f"an argument cannot be sent: {error}") from error
            value = self._ask("call", name, *given)
            self.last = f"{self.last} gave {short(value)}"
            return value

        return call

    def _ask(self, *message: Any) -> Any:
        self.asked += 1
        try:
            self._channel.send(list(message))
        except ChannelClosedError:
            self._gone("")
        except ChannelBrokenError as error:
            raise RefusedError(f"{error}, given to the program") from None
        kind, content, *more = self._receive()
        if kind == "value" and not more:
            return self._decoded(content)
        if kind != "raised" or not isinstance(content, list) or len(more) != 2:
            self._gone(_NO_ANSWER)
        bases, text, arguments = [str(each) for each in content], str(more[0]), more[1]
        arguments = self._decoded(arguments)
        self.last = f"{self.last.partition(' gave ')[0]} raised {said(bases, text)}"
        self.out_of_memory = self.out_of_memory or "MemoryError" in bases
        found = _exception(bases, text, arguments if isinstance(arguments, list) else None)
        if isinstance(found, ProgramGoneError):  # SystemExit and its like
            self._gone(str(found))
        raise found

    def _decoded(self, data: Any) -> Any:
        try:
            return decode(data, self._resolve)
        except (BadValueError, RecursionError) as error:
            self._gone(f"{_NO_VALUE}: {error}")

    def _resolve(self, name: str, content: Any) -> Any:
        if name == "iterator":
            return self._elements(content)
        if name == "object":
            self._gone(
                f"{self.last} returned an object of the type {content!s:.60}, no plain value"
            )
        raise BadValueError(f"{name!r} is not a value")

    def _elements(self, number: Any) -> Iterator[Any]:
        """The elements of an iterator of the program, each when it is asked for."""
        given = 0
        while True:
            found = self._ask("next", number, 1 if given < _ONE_BY_ONE else _CHUNK)
            if not isinstance(found, list):
                self._gone(_NO_ANSWER)
            if not found:
                return
            given += len(found)
            yield from found

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


def _no_reference(value: Any) -> dict[str, Any]:
    raise RefusedError(f"a value of type {type(value).__name__} given to the program")


def short(value: Any) -> str:
    try:
        return _REPR.repr(value)
    except Exception as error:  # noqa: BLE001 - a number of too many digits, say
        return f"<{type(value).__name__}: {type(error).__name__}>"


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60
