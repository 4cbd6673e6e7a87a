"""Runs what a text of tests defines as its framework would.

Functions ``test_...`` (also coroutines and generators), classes ``Test...`` of pytest, classes of
unittest, and HumanEval's ``check(candidate)``, each where the text has not run it itself.
"""

import contextlib
import inspect
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from dph._processes.sandbox.names import TaskError
from dph._processes.sandbox.pytest_stand_in import (
    AUTOMATIC,
    FIXTURE,
    PARAMETERS,
    SKIPPED,
    SkippedError,
)
from dph._processes.sandbox.remote import Remote


class Defined:
    """The tests that the names of a text hold.

    Args:
        names: all global names.
        before: what they were before the text.
        candidate: what ``check`` is given; None where the task does not say.
        reached: told of every check that a test itself is: one that returns True.
        forgive: told that assertions failed that should.
    """

    def __init__(
        self,
        names: Mapping[str, Any],
        before: Mapping[str, Any],
        candidate: Any,
        reached: Callable[[], None],
        forgive: Callable[[], None],
    ) -> None:
        self._names = names
        self._new = {k: v for k, v in names.items() if before.get(k) is not v}
        self._candidate = candidate
        self._reached = reached
        self._forgive = forgive

    def run(self, *, needs_check: bool) -> None:
        """Run all of them; ``needs_check``: the text did not call ``check`` itself.

        Raises:
            TaskError: a test asks for what is not here.
            BaseException: what a test raises.
        """
        self._call_new("setup_module")
        for name, value in list(self._new.items()):
            if isinstance(value, Remote):
                continue
            if isinstance(value, type):
                self._run_class(name, value)
            elif inspect.isfunction(value) and name.lower().startswith("test"):
                self._call_new("setup_function")
                self._run_function(value)
        checks = [value for name, value in self._new.items() if name.partition("__")[0] == "check"]
        for check in checks if needs_check else []:
            if inspect.isfunction(check):
                self._run_check(check)

    def _call_new(self, name: str) -> None:
        """Call a function of the text that prepares its tests."""
        if inspect.isfunction(function := self._new.get(name)):
            function(*[None] * len(inspect.signature(function).parameters))

    def _run_check(self, check: Any) -> None:
        needed = [p for p in inspect.signature(check).parameters.values() if p.default is p.empty]
        if len(needed) > 1:
            return
        if needed and self._candidate is None:
            raise TaskError(
                "the tests define check(candidate), and no entry_point names the candidate"
            )
        self._finish(check(*([self._candidate] if needed else [])))

    def _run_class(self, name: str, value: type) -> None:
        unittest = sys.modules.get("unittest")
        if unittest is not None and issubclass(value, unittest.TestCase):
            if _run_unittest(unittest, value):
                self._forgive()
        elif name.startswith("Test") and value.__dict__.get("__test__", True):
            self._run_pytest_class(value)

    def _run_pytest_class(self, kind: type) -> None:
        if hasattr(kind, SKIPPED):
            return
        _call_if_there(kind, "setup_class", kind)
        for name in [n for n in dir(kind) if n.startswith("test")]:
            instance = kind()
            test = getattr(instance, name)
            if not callable(test):
                continue
            _call_if_there(instance, "setup_method", test)
            _call_if_there(instance, "setUp")
            try:
                self._run_function(test, instance)
            finally:
                _call_if_there(instance, "teardown_method", test)
                _call_if_there(instance, "tearDown")
        _call_if_there(kind, "teardown_class", kind)

    def _run_function(self, test: Any, instance: Any = None) -> None:
        if hasattr(test, SKIPPED):
            return
        of_class = getattr(type(instance), PARAMETERS, [{}])
        for given in ({**a, **b} for a in of_class for b in getattr(test, PARAMETERS, [{}])):
            with contextlib.ExitStack() as stack:
                asked = inspect.signature(test).parameters.values()
                named = {
                    p.name: given[p.name]
                    if p.name in given
                    else self._fixture(p.name, instance, stack)
                    for p in asked
                    if p.name in given or (p.default is p.empty and p.kind not in _SPREAD)
                }
                for name in self._automatic(instance):
                    self._fixture(name, instance, stack)
                with contextlib.suppress(SkippedError):
                    self._finish(test(**named))

    def _automatic(self, instance: Any) -> list[str]:
        """Names of the fixtures that every test needs."""
        places = [dict(self._names)]
        if instance is not None:
            places.append({name: getattr(type(instance), name) for name in dir(type(instance))})
        return [
            name
            for place in places
            for name, each in place.items()
            if inspect.isfunction(each) and getattr(each, AUTOMATIC, False)
        ]

    def _fixture(self, name: str, instance: Any, stack: contextlib.ExitStack) -> Any:
        """Fixture that a test asks for by the name of a parameter."""
        if name in _OWN_FIXTURES:
            return stack.enter_context(_OWN_FIXTURES[name]())
        if name == "candidate" and self._candidate is not None:
            return self._candidate
        function = getattr(instance, name, None) or self._names.get(name)
        if function is None or not getattr(function, FIXTURE, False):
            raise TaskError(f"a test asks for {name!r}, but there is no such fixture")
        parameters = inspect.signature(function).parameters
        value = function(**{each: self._fixture(each, instance, stack) for each in parameters})
        if inspect.isgenerator(value):
            made = next(value)
            stack.callback(lambda: next(value, None))
            return made
        return value

    def _finish(self, value: Any) -> None:
        """Let what a test returned come to its end: a coroutine, a generator, True or False."""
        if inspect.iscoroutine(value):
            value = awaited(value)
        if inspect.isasyncgen(value):
            raise TaskError("a test is an asynchronous generator, which is never run")
        if inspect.isgenerator(value):
            for each in value:
                if isinstance(each, tuple) and each and callable(each[0]):
                    each[0](*each[1:])
            return
        if isinstance(value, bool):
            self._reached()
            if not value:
                raise AssertionError("the test returned False")


_SPREAD = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _run_unittest(unittest: Any, kind: type) -> bool:
    """Run a class of unittest, which the tests loaded; whether a test of it failed as it should."""
    first: list[BaseException] = []

    class Result(unittest.TestResult):  # type: ignore[misc]
        def addError(self, test: Any, err: Any) -> None:  # noqa: N802 - unittest's name
            first.append(err[1])
            super().addError(test, err)

        def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
            first.append(err[1])
            super().addFailure(test, err)

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
            if err is not None:
                first.append(err[1])
            super().addSubTest(test, subtest, err)

    result = Result()
    result.failfast = True
    unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
    if first:
        raise first[0]
    if result.unexpectedSuccesses:
        raise AssertionError("a test passed that was expected to fail")
    return bool(result.expectedFailures)


def awaited(coroutine: Any) -> Any:
    """Result of a coroutine."""
    import asyncio  # noqa: PLC0415 - it would be much for every fork to copy

    return asyncio.run(coroutine)


def _call_if_there(place: Any, name: str, *given: Any) -> None:
    """Call a method that prepares or tidies, with what it takes of the arguments."""
    method = getattr(place, name, None)
    if method is not None:
        taken = len(inspect.signature(method).parameters)
        method(*given[:taken])


@contextlib.contextmanager
def _capsys() -> Iterator[Any]:
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        yield _Captured(out, err)


class _Captured:
    """Text written since it was last read: ``readouterr().out``."""

    def __init__(self, out: io.StringIO, err: io.StringIO) -> None:
        self._streams = (out, err)

    def readouterr(self) -> Any:
        """Standard output and standard error, which begin anew."""
        texts = []
        for stream in self._streams:
            texts.append(stream.getvalue())
            stream.seek(0)
            stream.truncate()
        return _Read(*texts)


class _Read(NamedTuple):
    out: str
    err: str


_OWN_FIXTURES: Mapping[str, Any] = {"capsys": _capsys, "capfd": _capsys}
