"""A module in the place of pytest: what tests of plain functions use of it, ready in no time.

``raises``, ``approx``, ``fail`` and ``mark.parametrize``; what else pytest has is refused by name
(dph._processes.sandbox.forms).
"""

import math
import re
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class Caught:
    """Result of ``raises``: ``value`` is the exception, once it was raised."""

    value: BaseException

    def match(self, pattern: str) -> bool:
        """True if the exception's text has the pattern somewhere; else the test fails."""
        if not re.search(pattern, str(self.value)):
            raise AssertionError(f"{str(self.value)!r} does not match {pattern!r}")
        return True


def raises(expected: Any, *call: Any, match: str | None = None, **named: Any) -> Any:
    """A context in which the exception must be raised, or a call that must raise it."""
    if call:
        function, *positional = call
        with _raises(expected, match) as caught:
            function(*positional, **named)
        return caught
    return _raises(expected, match)


@contextmanager
def _raises(expected: Any, match: str | None) -> Iterator[Caught]:
    caught = Caught()
    try:
        yield caught
    except expected as error:
        caught.value = error
        if match is not None:
            caught.match(match)
    else:
        raise AssertionError(f"{getattr(expected, '__name__', expected)} was expected")


class Approx:
    """Equal within a tolerance: relative 1e-6 or absolute 1e-12, whichever is larger.

    Numbers, and lists, tuples and dictionaries of them.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expected: Any, rel: float | None = None, abs: float | None = None) -> None:
        self._expected, self._rel, self._abs = expected, rel, abs

    def __eq__(self, actual: object) -> bool:
        return self._is_near(actual, self._expected)

    def __repr__(self) -> str:
        return f"approx({self._expected!r})"

    def _is_near(self, actual: Any, expected: Any) -> bool:
        if isinstance(expected, dict):
            return (
                isinstance(actual, dict)
                and actual.keys() == expected.keys()
                and all(self._is_near(actual[key], expected[key]) for key in expected)
            )
        if hasattr(expected, "tolist") and hasattr(actual, "tolist"):
            actual, expected = actual.tolist(), expected.tolist()
        if isinstance(expected, list | tuple):
            return (
                isinstance(actual, list | tuple)
                and len(actual) == len(expected)
                and all(map(self._is_near, actual, expected))
            )
        if type(actual) not in (int, float, complex, bool) or actual == expected:
            return bool(actual == expected)
        if isinstance(expected, bool) or not isinstance(expected, int | float | complex):
            return False
        if math.isinf(abs(expected)) or math.isnan(abs(actual)):
            return False
        return bool(abs(actual - expected) <= self._tolerance(abs(expected)))

    def _tolerance(self, size: float) -> float:
        absolute = 1e-12 if self._abs is None else self._abs
        if self._rel is None and self._abs is not None:
            return absolute
        return max(absolute, (1e-6 if self._rel is None else self._rel) * size)


def fail(reason: str = "", **_: Any) -> None:
    """Let the test fail."""
    raise AssertionError(reason or "the test says that it failed")


def _parametrize(names: str, values: Sequence[Any], **_: Any) -> Callable[[Any], Any]:
    """Run a test once for each of the values; several of these: for each of their pairs."""
    given = [name.strip() for name in names.split(",")]

    def mark(test: Callable[..., Any]) -> Callable[..., Any]:
        def run(**named: Any) -> Any:
            rows = ([row] if len(given) == 1 else row for row in values)
            done = [test(**named, **dict(zip(given, row, strict=True))) for row in rows]
            return all(done) if any(isinstance(each, bool) for each in done) else None

        return run

    return mark


def stand_in() -> types.ModuleType:
    """The module."""
    module = types.ModuleType("pytest")
    mark = types.SimpleNamespace(parametrize=_parametrize)
    module.__dict__.update(raises=raises, approx=Approx, fail=fail, mark=mark)
    return module
