"""A module in the place of pytest: what tests of functions use of it, ready in no time.

``raises``, ``approx``, ``fail``, ``skip``, ``fixture``, ``mark.parametrize`` and the other marks;
the tests are run by dph._processes.sandbox.frameworks. What else pytest has is missing, and a test
that asks for it is no test.
"""

import math
import re
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

PARAMETERS, FIXTURE, SKIPPED = "__dph_parameters__", "__dph_fixture__", "__dph_skipped__"
AUTOMATIC = "__dph_automatic__"
"""Attributes that marks leave: a test's parameters, that it is a fixture, why it is skipped, and
that every test needs a fixture."""


class SkippedError(Exception):
    """A test that asks not to be run."""


class Caught:
    """Result of ``raises``: ``value`` and ``type`` of the exception, once it was raised."""

    value: BaseException
    type: type[BaseException]

    def match(self, pattern: str) -> bool:
        """Whether the exception's text has the pattern somewhere; else the test fails."""
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
        caught.value, caught.type = error, type(error)
        if match is not None:
            caught.match(match)
    else:
        raise AssertionError(f"{getattr(expected, '__name__', expected)} was expected")


class Approx:
    """Equal within a tolerance: relative 1e-6 or absolute 1e-12, whichever is larger.

    Numbers, and lists, tuples and dictionaries of them.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        expected: Any,
        rel: float | None = None,
        abs: float | None = None,
    ) -> None:
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
            return bool(type(actual) is not object and actual == expected)
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


def skip(reason: str = "", **_: Any) -> None:
    """Do not run the test."""
    raise SkippedError(reason)


def fixture(function: Any = None, *, autouse: bool = False, **_: Any) -> Any:
    """Note that a function makes what tests ask for by its name, or that every test needs."""
    if function is None:
        return partial(fixture, autouse=autouse)
    setattr(function, FIXTURE, True)
    setattr(function, AUTOMATIC, autouse)
    return function


class _Marks:
    """``mark.parametrize`` and the marks that skip; any other changes nothing."""

    def parametrize(
        self, names: str | Sequence[str], values: Sequence[Any], **_: Any
    ) -> Callable[[Any], Any]:
        """Run a test once for each of the values."""
        given = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
        rows = [_row(value, len(given)) for value in values]

        def mark(test: Any) -> Any:
            before = getattr(test, PARAMETERS, [{}])
            named = [dict(zip(given, row, strict=True)) for row in rows]
            setattr(test, PARAMETERS, [{**old, **new} for old in before for new in named])
            return test

        return mark

    def skip(self, test: Any = None, reason: str = "") -> Any:
        """Do not run a test."""
        return _skipping(test, reason)

    def xfail(self, test: Any = None, *_: Any, reason: str = "", **__: Any) -> Any:
        """Do not run a test that may fail: whatever it gives, it passes."""
        return _skipping(test, reason or "it may fail")

    def skipif(self, condition: Any, reason: str = "") -> Any:
        """Do not run a test where a condition holds."""
        return _skipping(None, reason) if condition else lambda test: test

    def __getattr__(self, _: str) -> Any:
        return _any_mark


def _row(value: Any, width: int) -> Sequence[Any]:
    value = value.values if isinstance(value, _Param) else value
    return [value] if width == 1 and not isinstance(value, _Values) else list(value)


class _Values(tuple[Any, ...]):
    __slots__ = ()


class _Param:
    def __init__(self, *values: Any, **_: Any) -> None:
        self.values = _Values(values)


def _skipping(test: Any, reason: str) -> Any:
    def mark(each: Any) -> Any:
        setattr(each, SKIPPED, reason or "skipped")
        return each

    return mark(test) if callable(test) else mark


def _any_mark(*values: Any, **_: Any) -> Any:
    return values[0] if len(values) == 1 and callable(values[0]) else lambda test: test


def stand_in() -> types.ModuleType:
    """The module."""
    module = types.ModuleType("pytest")
    module.__dict__.update(
        raises=raises,
        approx=Approx,
        fail=fail,
        skip=skip,
        fixture=fixture,
        mark=_Marks(),
        param=_Param,
        main=lambda *_, **__: 0,
    )
    return module
