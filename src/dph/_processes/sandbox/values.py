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
import struct
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple

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


Refer = Callable[[Any], dict[str, Any]]
"""Makes a reference of an object that is not plain."""


class BadValueError(ValueError):
    """A value is malformed."""


def encode(value: Any, refer: Refer) -> Any:
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
    read = _ROWS[name].read if name in _ROWS else _OTHERS.get(name)
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
    {
        "type": TYPES.__getitem__,
        "ndarray": _array,
        "int": lambda content: int(content, 16),
    }
)
