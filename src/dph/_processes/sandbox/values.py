"""Values of Python as JSON and back, so that one process need not trust another's objects.

What is plain (numbers, text, bytes, containers and a few types of the standard library) goes
over as it is; an object of any other type stays where it is, and goes over as a reference, a
number. What comes back is made of types of Python and numpy alone: no method and no comparison of
the other side's. Of a subclass of a plain type, a namedtuple say, its plain value goes over.

==================== ============================================================
value                JSON
==================== ============================================================
None, bool, str      themselves
int                  itself; ``{"int": hexadecimal}`` beyond 2**63
float                itself, also NaN and Infinity
list                 an array
types of Python      ``{"type": name}``
numpy's arrays       ``{"ndarray": [dtype, shape, hexadecimal]}``: numbers and texts alone
others               an object with one key, the name of the type
==================== ============================================================
"""

import builtins
import datetime
import json
import os
import re
import struct
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

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
        """Write a message."""
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
        """Read a message."""
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


Refer = Callable[[Any], dict[str, Any]]
"""Makes a reference of an object that is not plain."""


class BadValueError(ValueError):
    """A value is malformed."""


def encode(value: Any, refer: Refer) -> Any:
    """A value as JSON."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if isinstance(value, type):
        return {"type": _TYPE_NAMES[value]} if value in _TYPE_NAMES else refer(value)
    if isinstance(value, int):
        number = int.__index__(value)
        return bool(number) if kind is bool else _integer(number)
    for base, write in _CONTAINERS.items():
        if isinstance(value, base):
            return write(value, refer)
    for plain, write_plain in _SCALARS.items():
        if isinstance(value, plain):
            return write_plain(value)
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


def _items(values: Any, refer: Refer) -> list[Any]:
    return [encode(each, refer) for each in values]


def _pairs(value: Any, refer: Refer) -> list[Any]:
    return [[encode(k, refer), encode(v, refer)] for k, v in dict.items(value)]


_CONTAINERS: Mapping[type, Callable[[Any, Refer], Any]] = MappingProxyType(
    {
        list: _items,
        tuple: lambda value, refer: {"tuple": _items(tuple.__iter__(value), refer)},
        Counter: lambda value, refer: {"Counter": _pairs(value, refer)},
        OrderedDict: lambda value, refer: {"OrderedDict": _pairs(value, refer)},
        defaultdict: lambda value, refer: {
            "defaultdict": [_TYPE_NAMES.get(value.default_factory), _pairs(value, refer)]
        },
        dict: lambda value, refer: {"dict": _pairs(value, refer)},
        set: lambda value, refer: {"set": _items(set.__iter__(value), refer)},
        frozenset: lambda value, refer: {"frozenset": _items(frozenset.__iter__(value), refer)},
        deque: lambda value, refer: {"deque": _items(deque.__iter__(value), refer)},
        slice: lambda value, refer: {"slice": _items((value.start, value.stop, value.step), refer)},
        type({}.keys()): lambda value, refer: {"keys": _items(value, refer)},
        type({}.values()): lambda value, refer: {"values": _items(value, refer)},
        type({}.items()): lambda value, refer: {"items": _items(value, refer)},
    }
)

_SCALARS: Mapping[Any, Callable[[Any], Any]] = MappingProxyType(
    {
        str: lambda value: str.__str__(value),
        float: lambda value: float.__float__(value),
        bytes: lambda value: {"bytes": bytes(value).hex()},
        bytearray: lambda value: {"bytearray": bytes(value).hex()},
        complex: lambda value: {"complex": [value.real, value.imag]},
        type(Ellipsis): lambda value: {"constant": repr(value)},
        type(NotImplemented): lambda value: {"constant": repr(value)},
        range: lambda value: {
            "range": [_integer(n) for n in (value.start, value.stop, value.step)]
        },
        Fraction: lambda value: {"Fraction": [hex(value.numerator), hex(value.denominator)]},
        Decimal: lambda value: {"Decimal": str(value)},
        array: lambda value: {"array": [value.typecode, value.tolist()]},
        datetime.datetime: lambda value: {"datetime": value.isoformat()},
        datetime.date: lambda value: {"date": value.isoformat()},
        datetime.time: lambda value: {"time": value.isoformat()},
        datetime.timedelta: lambda value: {
            "timedelta": [value.days, value.seconds, value.microseconds]
        },
    }
)


def decode(data: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """The value of what ``encode`` made; ``resolve(name, content)`` is asked for other names."""
    if isinstance(data, list):
        return [decode(each, resolve) for each in data]
    if not isinstance(data, dict):
        return data
    if len(data) != 1:
        raise BadValueError(f"a value has one key, got {len(data)}")
    ((name, content),) = data.items()
    try:
        if name == "defaultdict":
            kind, pairs = content
            return defaultdict(TYPES[kind] if kind else None, decode({"dict": pairs}, resolve))
        if name in _DICTIONARIES:
            return _DICTIONARIES[name]({decode(k, resolve): decode(v, resolve) for k, v in content})
        if name in _FILLED:
            return _READERS[name]([decode(each, resolve) for each in content])
        return _READERS[name](content) if name in _READERS else resolve(name, content)
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


_CONSTANTS: Mapping[str, Any] = MappingProxyType(
    {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}
)
_DICTIONARIES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"dict": dict, "Counter": Counter, "OrderedDict": OrderedDict}
)
_FILLED = frozenset({"tuple", "set", "frozenset", "deque", "keys", "values", "items", "slice"})
_READERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "type": TYPES.__getitem__,
        "ndarray": _array,
        "tuple": tuple,
        "set": set,
        "frozenset": frozenset,
        "deque": deque,
        "keys": lambda items: dict.fromkeys(items).keys(),
        "values": lambda items: dict(enumerate(items)).values(),
        "items": lambda items: dict(items).items(),
        "slice": lambda items: slice(*items),
        "constant": _CONSTANTS.__getitem__,
        "int": lambda content: int(content, 16),
        "bytes": bytes.fromhex,
        "bytearray": bytearray.fromhex,
        "complex": lambda content: complex(float(content[0]), float(content[1])),
        "range": lambda content: range(*(decode(each, _nothing) for each in content)),
        "Fraction": lambda content: Fraction(int(content[0], 16), int(content[1], 16)),
        "Decimal": Decimal,
        "array": lambda content: array(str(content[0])[:1], content[1]),
        "datetime": datetime.datetime.fromisoformat,
        "date": datetime.date.fromisoformat,
        "time": datetime.time.fromisoformat,
        "timedelta": lambda content: datetime.timedelta(*content),
    }
)


def _nothing(name: str, _: Any) -> Any:
    raise BadValueError(f"{name!r} is not allowed here")
