"""Values of Python as JSON and back, so that one process need not trust another's objects.

What is plain (numbers, text, bytes, containers and a few types of the standard library) goes
over as it is; an object of any other type stays where it is, and goes over as a reference, a
number. What comes back is made only of types of Python and numpy: no method and no comparison of
the other side's. Of a subclass of a plain type, a namedtuple say, its plain value goes over.

==================== ============================================================
value                JSON
==================== ============================================================
None, bool, str      themselves
int                  itself; ``{"int": hexadecimal}`` beyond 2**63
float                itself, also NaN and Infinity
list                 an array
others               an object with one key, the name of a type: its content is a text or an array
numpy's arrays       ``{"ndarray": [dtype, shape, hexadecimal]}``: only numbers and texts
==================== ============================================================
"""

import builtins
import datetime
import json
import os
import re
import reprlib
import struct
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

_HEADER = struct.Struct("<Q")
_READ = 1 << 20
LARGEST_MESSAGE = 32_000_000


class ChannelClosedError(Exception):
    """The other side is gone."""


class ChannelBrokenError(Exception):
    """A message is malformed or too long."""


def read_document(descriptor: int) -> Any:
    """The JSON of a file that a process was started with."""
    with open(descriptor, encoding="utf-8", errors="surrogatepass") as file:
        return json.load(file)


class Channel:
    """One end of a connection that no other process has."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Any) -> None:
        data = json.dumps(message).encode("ascii")
        if len(data) > LARGEST_MESSAGE:
            raise ChannelBrokenError(f"a message of {len(data)} bytes, {LARGEST_MESSAGE} allowed")
        view = memoryview(_HEADER.pack(len(data)) + data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosedError from error

    def receive(self) -> Any:
        (size,) = _HEADER.unpack(self._read(_HEADER.size))
        if size > LARGEST_MESSAGE:
            raise ChannelBrokenError(f"a message of {size} bytes, {LARGEST_MESSAGE} allowed")
        data = self._read(size)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ChannelBrokenError(f"no JSON: {type(error).__name__}") from error

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.read(self._descriptor, min(size, _READ))
            except ConnectionResetError as error:
                raise ChannelClosedError from error
            if not part:
                raise ChannelClosedError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


_LARGE = 1 << 63
_DATES = (datetime.datetime, datetime.date, datetime.time)  # a datetime is a date, too
_DTYPE = re.compile(r"[<>|=]?[biufcSU][0-9]+")
TYPES: Mapping[str, type] = MappingProxyType(
    {
        **{
            each.__name__: each
            for each in vars(builtins).values()
            if isinstance(each, type) and each is not type
        },
        "type": type,
        "NoneType": type(None),
        "function": type(lambda: None),
        **{each.__name__: each for each in (Counter, OrderedDict, defaultdict, deque)},
        **{each.__name__: each for each in (Decimal, Fraction, array, *_DATES, datetime.timedelta)},
    }
)
"""Types that either side may name."""
_TYPE_NAMES = {each: name for name, each in TYPES.items()}


def bases_of(kind: Any) -> list[str]:
    """Names of a class and its bases; those of a library have their module before them."""
    names = []
    for each in type.__dict__["__mro__"].__get__(kind):
        module = each.__module__ if isinstance(each.__module__, str) else "program"
        names.append(str(each.__name__) if module == "builtins" else f"{module}:{each.__name__}")
    return names


class BadValueError(ValueError):
    """A value is malformed."""


def encode(value: Any, refer: Callable[[Any], dict[str, Any]]) -> Any:
    """A value as JSON; ``refer`` makes a reference of an object that is not plain."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if isinstance(value, list):
        return [encode(each, refer) for each in value]
    if isinstance(value, type):
        return {"type": _TYPE_NAMES[value]} if value in _TYPE_NAMES else refer(value)
    if isinstance(value, int):
        return _integer(int.__index__(value))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    for name, row in _ROWS.items():
        if isinstance(value, row.kind):
            return {name: encode(row.write(value), refer)}
    if (numpy := sys.modules.get("numpy")) is not None:
        if isinstance(value, numpy.bool_):
            return bool(value)
        if type(value) is numpy.ndarray and _DTYPE.fullmatch(value.dtype.str):
            return {"ndarray": [value.dtype.str, list(value.shape), value.tobytes().hex()]}
    if isinstance(value, Integral):  # numpy's, say
        return _integer(int(value))
    if isinstance(value, Real):
        return float(value)
    return refer(value)


def _integer(number: int) -> Any:
    return number if -_LARGE < number < _LARGE else {"int": hex(number)}


def refuse_reference(name: str, _: Any) -> Any:
    raise BadValueError(f"{name!r} is not a value")


def decode(data: Any, resolve: Callable[[str, Any], Any] = refuse_reference) -> Any:
    """The value of what ``encode`` made; ``resolve(name, content)`` is asked for other names."""
    if isinstance(data, list):
        return [decode(each, resolve) for each in data]
    if not isinstance(data, dict):
        return data
    if len(data) != 1:
        raise BadValueError(f"a value has one key, got {len(data)}")
    ((name, content),) = data.items()
    row = _ROWS.get(name)
    read = row.read if row else _OTHERS.get(name)
    if read is None:
        return resolve(name, content)
    if not isinstance(content, str | list):
        raise BadValueError(f"no {name}: {type(content).__name__}")
    try:
        return read(content if isinstance(content, str) else decode(content, resolve))
    except BadValueError:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        raise BadValueError(f"no {name}: {type(error).__name__}") from error


def _array(content: Any) -> Any:
    """An array of numpy, which the side that sends it has loaded."""
    import numpy  # noqa: PLC0415 - only where an array comes over

    kind, shape, data = content
    if not _DTYPE.fullmatch(kind):
        raise BadValueError("an array of objects")
    return numpy.frombuffer(bytes.fromhex(data), dtype=kind).reshape(shape).copy()


class _Row(NamedTuple):
    """A type, the text or list that a value of it is written as, and the value of such content."""

    kind: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _pairs(value: Any) -> list[list[Any]]:
    return [[key, each] for key, each in dict.items(value)]


def _factory(value: Any) -> Any:
    return value.default_factory if value.default_factory in _TYPE_NAMES else None


_ROWS: Mapping[str, _Row] = MappingProxyType(
    {  # a type comes before those that it is a kind of
        "tuple": _Row(tuple, lambda value: [*tuple.__iter__(value)], tuple),
        "Counter": _Row(Counter, _pairs, lambda pairs: Counter(dict(pairs))),
        "OrderedDict": _Row(OrderedDict, _pairs, OrderedDict),
        "defaultdict": _Row(
            defaultdict,
            lambda value: [_factory(value), *_pairs(value)],
            lambda content: defaultdict(content[0], content[1:]),
        ),
        "dict": _Row(dict, _pairs, dict),
        "set": _Row(set, lambda value: [*set.__iter__(value)], set),
        "frozenset": _Row(frozenset, lambda value: [*frozenset.__iter__(value)], frozenset),
        "deque": _Row(deque, lambda value: [*deque.__iter__(value)], deque),
        "slice": _Row(
            slice, lambda value: [value.start, value.stop, value.step], lambda ends: slice(*ends)
        ),
        "keys": _Row(type({}.keys()), list, lambda keys: dict.fromkeys(keys).keys()),
        "values": _Row(type({}.values()), list, lambda each: dict(enumerate(each)).values()),
        "items": _Row(type({}.items()), list, lambda items: dict(items).items()),
        "bytes": _Row(bytes, lambda value: bytes(value).hex(), bytes.fromhex),
        "bytearray": _Row(bytearray, lambda value: bytes(value).hex(), bytearray.fromhex),
        "complex": _Row(
            complex,
            lambda value: [value.real, value.imag],
            lambda parts: complex(float(parts[0]), float(parts[1])),
        ),
        "Ellipsis": _Row(type(...), lambda _: "", lambda _: ...),
        "NotImplemented": _Row(type(NotImplemented), lambda _: "", lambda _: NotImplemented),
        "range": _Row(
            range, lambda value: [value.start, value.stop, value.step], lambda ends: range(*ends)
        ),
        "Fraction": _Row(
            Fraction,
            lambda value: [hex(value.numerator), hex(value.denominator)],
            lambda parts: Fraction(int(parts[0], 16), int(parts[1], 16)),
        ),
        "Decimal": _Row(Decimal, str, Decimal),
        "array": _Row(
            array,
            lambda value: [value.typecode, value.tolist()],
            lambda content: array(str(content[0])[:1], content[1]),
        ),
        **{each.__name__: _Row(each, each.isoformat, each.fromisoformat) for each in _DATES},
        "timedelta": _Row(
            datetime.timedelta,
            lambda value: [value.days, value.seconds, value.microseconds],
            lambda parts: datetime.timedelta(*parts),
        ),
    }
)
_OTHERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"type": TYPES.__getitem__, "ndarray": _array, "int": lambda content: int(content, 16)}
)


# A call of the program sends plain values and gets one back, or an exception by the name of its
# class. Comparisons are made in the process that tests, only among types of Python.

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
