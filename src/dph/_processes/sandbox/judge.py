"""The process that tests a program in another process, and says what came of it.

It runs the task's own code: ``setup``, then each of ``tests`` and what it defines
(dph._processes.sandbox.forms), then ``calls``: arguments, and what must be returned. A test in
which nothing was checked is no test (dph._processes.sandbox.texts). The verdict goes over a
connection that the program does not have.
"""

import builtins
import inspect
import json
import linecache
import math
import random
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from dph._processes.sandbox.forms import plan
from dph._processes.sandbox.program import prefix_alone
from dph._processes.sandbox.texts import (
    NOT_SUPPORTED,
    REACHED,
    SOLUTION_MODULES,
    USUAL,
    CompiledTests,
    Names,
    TaskError,
)
from dph._processes.sandbox.values import (
    Channel,
    ChannelClosedError,
    ProgramGoneError,
    RefusedError,
    RemoteProgram,
    is_of_program,
    read_document,
)
from dph.records import Outcome

_SETUP, _TESTS = "<setup", "<test "
_REASON_CHARACTERS = 400
_OUT_OF_MEMORY = "out of memory"


def run_judge(descriptors: Sequence[int]) -> None:
    """The role ``judge``: descriptors of the job, of who asks, of the program, of a solution."""
    job = read_document(descriptors[0])
    asker = Channel(descriptors[1])
    try:
        programs = [RemoteProgram(Channel(descriptor)) for descriptor in descriptors[2:]]
        outcome, reason = _judge(job, asker, *programs)
        asker.send(["verdict", outcome, " ".join(reason.split())[:_REASON_CHARACTERS]])
    except ChannelClosedError:
        pass  # the verdict is no longer wanted


def _judge(
    job: dict[str, Any],
    asker: Channel,
    program: RemoteProgram,
    solution: RemoteProgram | None = None,
) -> tuple[Outcome, str]:
    entry_point, calls = job["entry_point"], job["calls"]
    asker.send(["stage", "setup"])
    _seed_everything()
    try:
        texts = {f"{_TESTS}{i}>": text for i, text in enumerate(job["tests"], start=1)}
        tests, meant = plan(texts, job["setup"], job["prefix"], entry_point)
        names = _names(job, meant.usual)
        if solution is not None:
            calls = _solved(calls, solution, entry_point, asker)
    except TaskError as error:
        return Outcome.BAD_GOLD, str(error)
    asker.send(["stage", "load"])
    try:
        if failed := program.load():
            return Outcome.OVER_LIMIT if program.out_of_memory else Outcome.INVALID, failed
    except ProgramGoneError as error:
        return Outcome.INVALID, f"{error} while it was loaded"
    needed = entry_point.partition(".")[0]
    if needed and needed not in program.names:
        return Outcome.INVALID, f"the program defines no {needed}"
    for name, text in texts.items():
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        return _Trial(program, meant, names, asker).run(tests, calls, entry_point)
    except TaskError as error:
        return Outcome.BAD_GOLD, str(error)


def _names(job: Mapping[str, Any], usual: frozenset[str]) -> dict[str, Any]:
    """The global names of the tests, but the program's: Python's, the prefix's and the setup's."""
    mark = types.SimpleNamespace(parametrize=_parametrize)
    sys.modules["pytest"] = types.ModuleType("pytest")
    sys.modules["pytest"].__dict__.update(raises=raises, approx=_Approx, fail=fail, mark=mark)
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    try:
        names.update({name: import_module(USUAL[name]) for name in sorted(usual)})
        if job["prefix"]:
            exec(compile(prefix_alone(job["prefix"], job["entry_point"]), _SETUP, "exec"), names)
        if job["setup"] != job["prefix"]:
            exec(compile(job["setup"], _SETUP, "exec"), names)
    except (Exception, SystemExit) as error:
        raise TaskError(f"the setup failed: {type(error).__name__}: {error}") from error
    return names


def _seed_everything() -> None:
    """Make what tests draw the same for every program."""
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
        make = numpy.random.default_rng
        numpy.random.default_rng = lambda seed=None: make(0 if seed is None else seed)


def _solved(
    calls: list[Any], solution: RemoteProgram, entry_point: str, asker: Channel
) -> list[Any]:
    """The calls, each with what the solution returns."""
    try:
        failed = solution.load()
    except ProgramGoneError as error:
        failed = str(error)
    if failed:
        raise TaskError(f"the other program: {failed}")
    solved = []
    for call in calls:
        asker.send(["stage", "setup"])
        try:
            solved.append({**call, "solved": _called(solution, call, entry_point)})
        except (Exception, ProgramGoneError, RefusedError) as error:
            raise TaskError(f"the other program: {type(error).__name__}: {error}") from error
    if all(each["solved"] is None for each in solved):
        raise TaskError("the other program returns nothing that could be compared")
    return solved


def _called(program: RemoteProgram, call: Mapping[str, Any], entry_point: str) -> Any:
    return program.function(entry_point)(*call["args"], **call["kwargs"])


class _Trial:
    """Runs the tests until one fails."""

    def __init__(
        self, program: RemoteProgram, meant: Names, names: dict[str, Any], asker: Channel
    ) -> None:
        self._program, self._names, self._asker = program, names, asker
        self._failure = ""
        self._reached = 0
        names[REACHED] = self._reach
        functions = {name: program.function(name) for name in meant.program}
        names.update(functions)
        for name in SOLUTION_MODULES:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__dict__.update(functions)
        self._candidate = program.function(meant.candidate)
        names.setdefault("candidate", self._candidate)

    def run(
        self, tests: Sequence[CompiledTests], calls: Sequence[Any], entry_point: str
    ) -> tuple[Outcome, str]:
        steps: list[Callable[[], None]] = [partial(self._run_test, test) for test in tests]
        steps += [partial(self._run_call, each, entry_point) for each in calls]
        for number, step in enumerate(steps, start=1):
            self._asker.send(["stage", "test"])
            self._program.last = ""
            if not self._passes(step):
                is_over = self._program.out_of_memory or self._failure == _OUT_OF_MEMORY
                outcome = Outcome.OVER_LIMIT if is_over else Outcome.WRONG
                return outcome, f"test {number} of {len(steps)}: {self._failure}"
        if not self._reached and not calls:
            raise TaskError("the tests assert nothing")
        if not self._program.asked:
            raise TaskError("the tests never use the program")
        return Outcome.CORRECT, ""

    def _reach(self) -> None:
        self._reached += 1

    def _passes(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except MemoryError:
            self._failure = _OUT_OF_MEMORY
        except TaskError:
            raise
        except RefusedError as error:
            raise TaskError(f"{NOT_SUPPORTED}: {error}") from error
        except BaseException as error:  # noqa: BLE001 - whatever the tests raise
            self._failure = self._described(error)
        # An exception of a program that is gone may be lost on its way: in ``all``, say.
        self._failure = self._failure or self._program.failure
        return not self._failure

    def _run_test(self, test: CompiledTests) -> None:
        """Run a text and the tests that it defines, and see that something was checked."""
        reached, asked = self._reached, self._program.asked
        try:
            exec(test.code, self._names)
            for name in test.functions:
                self._run_function(self._names[name])
        except (ImportError, NameError) as error:
            if not is_of_program(error):
                raise TaskError(f"the tests: {type(error).__name__}: {error}") from error
            raise
        if self._reached > reached or not test.checks:
            return
        if test.may_skip and self._program.asked > asked:
            raise AssertionError(
                "no assertion ran: the values that the program returned left none to run"
            )
        raise TaskError("the tests have assertions, and none of them ran")

    def _run_function(self, test: Callable[..., Any]) -> None:
        code = getattr(test, "__code__", None)
        takes = code.co_varnames[: code.co_argcount] if code else ()
        defaults = len(getattr(test, "__defaults__", None) or ())
        needed = len(takes) - defaults
        if needed > 1:
            return  # a function ``check`` that other tests use
        value = test(*[self._candidate] * needed)
        if isinstance(value, bool):
            self._reach()
            if not value:
                raise AssertionError("the test returned False")

    def _run_call(self, call: dict[str, Any], entry_point: str) -> None:
        value = _called(self._program, call, entry_point)
        if "solved" in call:
            if type(value) is not type(call["solved"]) or value != call["solved"]:
                raise AssertionError("the other program returned something else")
        elif not same_value(value, call["returns"]):
            raise AssertionError(f"{json.dumps(call['returns'])[:100]} was expected")

    def _described(self, error: BaseException) -> str:
        trace = traceback.extract_tb(error.__traceback__)
        # The innermost line of the tests that it went through.
        lines = [frame.line or "" for frame in trace if frame.filename.startswith(_TESTS)]
        line = lines[-1] if lines else ""
        what = "" if type(error) is AssertionError else type(error).__name__
        text = str(error)[:200] if not isinstance(error, KeyError) else repr(error)[:200]
        said = ": ".join(part for part in (what, text) if part) or "it does not hold"
        last = f" ({self._program.last})" if self._program.last else ""
        return f"{line[:160]}{': ' if line else ''}{said}{last}"


def same_value(value: Any, expected: Any) -> bool:
    """True if the returned value is that of the task's JSON; a tuple is as good as a list.

    Keys of JSON are texts, so those of a dictionary are compared as texts.
    """
    if isinstance(value, list | tuple):
        same_length = isinstance(expected, list) and len(value) == len(expected)
        return same_length and all(map(same_value, value, expected))
    if isinstance(value, dict):
        same_length = isinstance(expected, dict) and len(value) == len(expected)
        if not same_length or {str(key) for key in value} != set(expected):
            return False
        return all(same_value(each, expected[str(key)]) for key, each in value.items())
    return type(value) in (bool, int, float, str, type(None)) and bool(value == expected)


# What tests of plain functions use of pytest, made in no time: ``raises``, ``approx``, ``fail`` and
# ``mark.parametrize``. What else it has is refused by name (dph._processes.sandbox.forms).


class _Catch:
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
def _raises(expected: Any, match: str | None) -> Iterator[_Catch]:
    caught = _Catch()
    try:
        yield caught
    except expected as error:
        caught.value = error
        if match is not None:
            caught.match(match)
    else:
        raise AssertionError(f"{getattr(expected, '__name__', expected)} was expected")


class _Approx:
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
            same_keys = isinstance(actual, dict) and actual.keys() == expected.keys()
            return same_keys and all(self._is_near(actual[key], expected[key]) for key in expected)
        if hasattr(expected, "tolist") and hasattr(actual, "tolist"):
            actual, expected = actual.tolist(), expected.tolist()
        if isinstance(expected, list | tuple):
            same_length = isinstance(actual, list | tuple) and len(actual) == len(expected)
            return same_length and all(map(self._is_near, actual, expected))
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
    raise AssertionError(reason or "the test says that it failed")


def _parametrize(names: str, values: Sequence[Any], **_: Any) -> Callable[[Any], Any]:
    """Run a test once for each of the values; several of these: for each of their pairs."""
    given = [name.strip() for name in names.split(",")]

    def mark(test: Callable[..., Any]) -> Callable[..., Any]:
        def run(candidate: Any, **named: Any) -> Any:  # which all tests may take
            if "candidate" in inspect.signature(test).parameters:
                named["candidate"] = candidate
            rows = ([row] if len(given) == 1 else row for row in values)
            done = [test(**named | dict(zip(given, row, strict=True))) for row in rows]
            return all(done) if any(isinstance(each, bool) for each in done) else None

        return run

    return mark
