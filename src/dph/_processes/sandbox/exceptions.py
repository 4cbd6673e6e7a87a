"""Exceptions of a program as classes of the process that tests it.

The program sends names: of the class, and of its bases. Python's own, and those of modules that the
tests have loaded, are themselves; a program's own become classes of that name below the same bases,
so that tests catch them by either.
"""

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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


def _is_usual(kind: type[BaseException]) -> bool:
    return issubclass(kind, Exception) and not issubclass(kind, _ENDS_LOOPS)
