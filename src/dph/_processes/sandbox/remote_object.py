"""Objects of a program that are not plain values: its functions, classes and objects.

A Remote can be called, its attributes and elements can be read and set, and each of those gives
values again. What it may decide depends on whose it is:

* of two objects of the program, the program says whether they are equal and which comes first;
* an object that the tests made themselves, by a class with a capital letter, has all operators,
  for it is what they test;
* any other object, above all what a function returned in place of a number or a text, is never
  equal to a plain value, smaller than one or true; and of a plain value (which may be the one that
  is expected) its operators make objects alone, of which no number can be had.
"""

import math
import operator
import reprlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol, TypeVar

# What may be asked of a program's objects, and what its answers are checked by.

SAY_TRUE = frozenset(
    {name for kind in (str, float) for name in dir(kind) if name.startswith("is")}
    | {"startswith", "endswith", "issubset", "issuperset", "isdisjoint", "equals"}
)
"""Methods of plain values that say whether something holds: nothing else may stand in for those."""
BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and_", "or_", "xor", "lshift", "rshift"),
)
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in (*BINARY, "lt", "le", "gt", "ge", "eq")},
    **{name: getattr(operator, name) for name in ("neg", "pos", "invert", "abs", "index")},
    **{name: getattr(operator, name) for name in ("contains", "setitem", "delitem", "truth")},
    **{f"i{name.rstrip('_')}": getattr(operator, f"i{name.rstrip('_')}") for name in BINARY},
    **{each.__name__: each for each in (int, float, complex, round, divmod)},
    **{each.__name__: each for each in (math.floor, math.ceil, math.trunc)},
}
"""Operations that ``operate`` may ask for, as the program's side does them."""


def unlike(value: Any) -> list[Any]:
    """Other values of the type of a plain one: what equals them, too, equals anything."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float | complex):
        return [2 * value + 1, -value - 1]
    if isinstance(value, str):
        return [f"{value}{value} ", f"a{value}", "" if value else "b"]
    if isinstance(value, list):
        return [[*value, "", 0], [*value, *value, 1]]
    if isinstance(value, tuple):
        return [(*value, "", 0), (*value, *value, 1)]
    return []


class Asker(Protocol):
    """The side that asks the program (``remote``).

    ``classes`` it has, its ``last`` call, and what the tests did that cannot be ``refused``.
    """

    classes: Mapping[str, list[str]]
    last: str
    refused: str

    def ask(self, request: str, remote: Any, *arguments: Any) -> Any:
        """The value that a request gives."""

    def is_checking(self) -> bool:
        """Whether what the tests do now is to check something."""


_SHOWN = frozenset(
    {"__name__", "__doc__", "__qualname__", "__dict__", "__class__", "__annotations__"}
)
_ONE_BY_ONE, _CHUNK = 256, 1024
_T = TypeVar("_T")


class Remote:
    """Something that the program has."""

    __slots__ = ("_made_here", "_program", "_reference", "_seen", "_text")

    def __init__(self, program: Asker, reference: dict[str, Any], text: str) -> None:
        for name, value in (
            ("_program", program),
            ("_reference", reference),
            ("_text", text),
            ("_made_here", False),
            ("_seen", False),
        ):
            object.__setattr__(self, name, value)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Result of the program's function or class for these arguments."""
        program = _program(self)
        given = ", ".join(map(short, positional))
        program.last = f"{_text(self)}({given})"[:200]
        value = program.ask("call", self, list(positional), named)
        program.last = f"{program.last} gave {short(value)}"
        if isinstance(value, Remote) and _is_class(self):
            object.__setattr__(value, "_made_here", True)
        return value

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        """No class of the tests can be below one of the program."""
        _program(self).refused = f"a class below the program's {_text(self)}"
        raise TypeError(_program(self).refused)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _SHOWN:
            raise AttributeError(name)
        if name in SAY_TRUE and "name" not in reference(self) and not _is_made_here(self):
            raise AttributeError(f"{_text(self)} is not a value that has {name}")
        return _program(self).ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _program(self).ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        _program(self).ask("unset", self, name)

    def __getitem__(self, key: Any) -> Any:
        return _program(self).ask("item", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _program(self).ask("operate", self, "setitem", [self, key, value])

    def __delitem__(self, key: Any) -> None:
        _program(self).ask("operate", self, "delitem", [self, key])

    def __contains__(self, item: Any) -> bool:
        if isinstance(item, Remote) or _is_made_here(self):
            return _truth(_program(self).ask("operate", self, "contains", [self, item]))
        return any(each is item or each == item for each in self)

    def __len__(self) -> int:
        size = _program(self).ask("size", self)
        if not isinstance(size, int):
            raise TypeError(f"a length is a number, got {type(size).__name__}")
        return size

    def __iter__(self) -> Iterator[Any]:
        program = _program(self)
        iterator = program.ask("iterate", self)
        if not isinstance(iterator, Remote):
            yield from iterator
            return
        given = 0
        while True:
            found = program.ask("items", iterator, 1 if given < _ONE_BY_ONE else _CHUNK)
            if not found:
                return
            given += len(found)
            yield from found

    def __next__(self) -> Any:
        found = _program(self).ask("items", self, 1)
        if not found:
            raise StopIteration
        return found[0]

    def __enter__(self) -> Any:
        return _program(self).ask("enter", self)

    def __exit__(self, *_: object) -> None:
        _program(self).ask("leave", self)

    def __bool__(self) -> bool:
        if "name" in reference(self):
            return True  # a function or a class, and so no test of it
        if _is_made_here(self):
            return _truth(_program(self).ask("operate", self, "truth", [self]))
        if not _program(self).is_checking():
            return _truth(_program(self).ask("operate", self, "truth", [self]))
        raise TypeError(f"{_text(self)} is not a value that a test can inspect")

    def __copy__(self) -> Any:
        return _copied(self, "copy")

    def __deepcopy__(self, _: object) -> Any:
        return _copied(self, "deepcopy")

    def __eq__(self, other: object) -> bool:
        return self is other or (_is_theirs(self, other) and _equal(self, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int(_program(self).ask("hash", self))

    def __str__(self) -> str:
        return _of_type(str, _program(self).ask("text", self))

    def __repr__(self) -> str:
        if "name" in reference(self):
            return _text(self)
        return _of_type(str, _program(self).ask("repr", self))

    def __format__(self, form: str) -> str:
        return _of_type(str, _program(self).ask("format", self, form))

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, Remote) and _truth(_program(self).ask("is a", self, value))

    def __subclasscheck__(self, kind: Any) -> bool:
        return isinstance(kind, Remote) and _truth(_program(self).ask("is below", self, kind))

    def __await__(self) -> Any:
        return awaitable(self).__await__()


def _binary(name: str, *, reflected: bool = False) -> Callable[[Remote, Any], Any]:
    def operate(self: Remote, other: Any) -> Any:
        operands = [other, self] if reflected else [self, other]
        value = _program(self).ask("operate", self, name, operands)
        if not isinstance(other, Remote) and not _is_made_here(self):
            if not isinstance(value, Remote):
                raise TypeError(f"{_text(self)} made a plain value of one of the tests")
            object.__setattr__(value, "_seen", True)
        if isinstance(value, Remote) and _is_made_here(self):
            object.__setattr__(value, "_made_here", True)
        return value

    return operate


def _ordered(name: str) -> Callable[[Remote, Any], Any]:
    def compare(self: Remote, other: Any) -> Any:
        if not _is_theirs(self, other):
            return NotImplemented
        return _truth(_program(self).ask("operate", self, name, [self, other]))

    return compare


def _single(name: str, kind: type | None = None) -> Callable[..., Any]:
    def convert(self: Remote, *more: Any) -> Any:
        value = _program(self).ask("operate", self, name, [self, *more])
        if isinstance(value, Remote):
            object.__setattr__(value, "_seen", object.__getattribute__(self, "_seen"))
        elif object.__getattribute__(self, "_seen"):
            raise TypeError(f"{_text(self)} made a plain value of one of the tests")
        return value if kind is None else _of_type(kind, value)

    return convert


def _in_place(name: str) -> Callable[[Remote, Any], Any]:
    """``stack += 3``: what the class of an object that the tests made makes of it."""
    own, either = _binary(f"i{name.rstrip('_')}"), _binary(name)

    def operate(self: Remote, other: Any) -> Any:
        return own(self, other) if _is_made_here(self) else either(self, other)

    return operate


for _name in BINARY:
    _dunder = _name.rstrip("_")
    setattr(Remote, f"__{_dunder}__", _binary(_name))
    setattr(Remote, f"__r{_dunder}__", _binary(_name, reflected=True))
    setattr(Remote, f"__i{_dunder}__", _in_place(_name))
for _name in ("divmod",):
    setattr(Remote, f"__{_name}__", _binary(_name))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Remote, f"__{_name}__", _ordered(_name))
for _name in ("neg", "pos", "invert", "abs"):
    setattr(Remote, f"__{_name}__", _single(_name))
for _kind in (int, float, complex):
    setattr(Remote, f"__{_kind.__name__}__", _single(_kind.__name__, _kind))
Remote.__doc__ = property(lambda self: _program(self).ask("get", self, "__doc__"))  # type: ignore[assignment]
Remote.__index__ = _single("index", int)  # type: ignore[attr-defined]
for _name in ("round", "floor", "ceil", "trunc"):
    setattr(Remote, f"__{_name}__", _single(_name))
Remote.__reversed__ = lambda self: reversed(list(self))  # type: ignore[attr-defined]


def awaitable(remote: Remote) -> Coroutine[Any, Any, Any]:
    """A coroutine that lets the program's run to its end, in the program's process."""

    async def run() -> Any:
        return _program(remote).ask("await", remote)

    return run()


def reference(remote: Remote) -> dict[str, Any]:
    """Reference by which the other side knows it."""
    found: dict[str, Any] = object.__getattribute__(remote, "_reference")
    return found


def short(value: Any) -> str:
    """A value in a message, without asking the program."""
    try:
        return _REPR.repr(value)
    except Exception as error:  # noqa: BLE001 - a number of too many digits, say
        return f"<{type(value).__name__}: {type(error).__name__}>"


class _Repr(reprlib.Repr):
    def repr1(self, x: Any, level: int) -> str:
        return _text(x) if isinstance(x, Remote) else super().repr1(x, level)


_REPR = _Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 60


def _equal(one: Remote, other: Any) -> bool:
    """Answer of the program, unless it gives the same for anything at all."""
    program = _program(one)
    if not _truth(program.ask("operate", one, "eq", [one, other])):
        return False
    return not _truth(program.ask("equals all", one, unlike(other)))


def _copied(remote: Remote, how: str) -> Any:
    """A copy that the program's side makes."""
    function = Remote(_program(remote), {"callable": ["copy", how]}, how)
    value = function(remote)
    if isinstance(value, Remote):
        object.__setattr__(value, "_made_here", _is_made_here(remote))
    return value


def _is_theirs(remote: Remote, other: object) -> bool:
    """Whether the program decides how the two compare."""
    return isinstance(other, Remote) or _is_made_here(remote)


def _is_class(remote: Remote) -> bool:
    """Whether calling it makes what tests are about: a class, by its name too."""
    name = reference(remote).get("name", "")
    return name[:1].isupper() and name in _program(remote).classes


def _is_made_here(remote: Remote) -> bool:
    return bool(object.__getattribute__(remote, "_made_here"))


def _program(remote: Remote) -> Asker:
    program: Asker = object.__getattribute__(remote, "_program")
    return program


def _text(remote: Remote) -> str:
    return str(object.__getattribute__(remote, "_text"))


def _truth(value: Any) -> bool:
    return _of_type(bool, value)


def _of_type(kind: type[_T], value: Any) -> _T:
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} is expected, got {type(value).__name__}")
    return value
