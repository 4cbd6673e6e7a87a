"""The process that tests a program in another process, and says what came of it.

It runs the task's own code: ``setup``, then each of ``tests``, then the tests that these define
(functions named ``test_...``, classes of unittest), then ``calls``: arguments, and what has to be
returned. Names that are defined nowhere are the program's; ``candidate`` is its entry point.
The verdict goes over a connection that the program does not have.
"""

import builtins
import json
import linecache
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import CodeType, TracebackType
from typing import Any

from dph.records import Outcome
from dph.sandbox.channel import Channel, ChannelClosedError, read_document
from dph.sandbox.remote import ProgramGoneError, Remote, RemoteProgram

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
        pass  # whoever asked wants no verdict any more


class _TaskError(Exception):
    """The task's own code does not work."""


class _Names(dict[str, Any]):
    """The global names of the tests. What they lack is Python's, or else the program's.

    A module of the standard library is never the program's: its ``math.isclose`` decides.
    """

    def __init__(self, program: RemoteProgram, entry_point: str) -> None:
        super().__init__({"__name__": "tests", "__builtins__": builtins})
        self._program = program
        self._entry_point = entry_point.partition(".")[0]

    def __missing__(self, name: str) -> Any:
        if self._entry_point and name in ("candidate", self._entry_point):
            return self._program.named(self._entry_point)
        if hasattr(builtins, name):
            raise KeyError(name)
        if name in sys.stdlib_module_names:
            return import_module(name)
        if name in self._program.names:
            return self._program.named(name)
        raise KeyError(name)


def _judge(
    job: dict[str, Any],
    asker: Channel,
    program: RemoteProgram,
    solution: RemoteProgram | None = None,
) -> tuple[Outcome, str]:
    entry_point = job["entry_point"]
    names = _Names(program, entry_point)
    asker.send(["stage", "setup"])
    try:
        codes = [_compiled(text, f"<test {i + 1}>") for i, text in enumerate(job["tests"])]
        _run(_compiled(job["setup"], "<setup>"), names)
        calls = job["calls"]
        if solution is not None:
            calls = [
                _solved(each, solution, entry_point, asker) for each in _loaded(solution, calls)
            ]
    except _TaskError as error:
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
    names.pop(needed, None)  # the stub that the setup may have
    return _Trial(program, names, asker).run(codes, calls, entry_point)


def _compiled(text: str, name: str) -> CodeType:
    try:
        code = compile(text, name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise _TaskError(f"the tests do not compile: {type(error).__name__}: {error}") from error
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return code


def _run(code: CodeType, names: _Names) -> None:
    try:
        exec(code, names)
    except (Exception, SystemExit) as error:
        raise _TaskError(f"the setup failed: {type(error).__name__}: {error}") from error


def _loaded(solution: RemoteProgram, calls: list[Any]) -> list[Any]:
    """The calls, once the solution can be called."""
    try:
        failed = solution.load()
    except ProgramGoneError as error:
        raise _TaskError(f"the other program: {error}") from error
    if failed:
        raise _TaskError(f"the other program: {failed}")
    return calls


def _solved(
    call: dict[str, Any], solution: RemoteProgram, entry_point: str, asker: Channel
) -> dict[str, Any]:
    """A call with what the solution returns."""
    asker.send(["stage", "setup"])
    try:
        value = _called(solution, call, entry_point)
    except (Exception, ProgramGoneError) as error:
        raise _TaskError(f"the other program: {type(error).__name__}: {error}") from error
    return {**call, "solved": value}


def _called(program: RemoteProgram, call: dict[str, Any], entry_point: str) -> Any:
    name, _, method = entry_point.partition(".")
    function = program.named(name)
    if method:
        function = getattr(function(), method)
    return function(*call["args"], **call["kwargs"])


class _Trial:
    """Runs the tests until one fails."""

    def __init__(self, program: RemoteProgram, names: _Names, asker: Channel) -> None:
        self._program = program
        self._names = names
        self._asker = asker
        self._failure = ""

    def run(
        self, codes: Sequence[CodeType], calls: Sequence[Any], entry_point: str
    ) -> tuple[Outcome, str]:
        steps = [partial(self._run_code, code) for code in codes]
        steps += [partial(self._run_defined)] if codes else []
        steps += [partial(self._run_call, each, entry_point) for each in calls]
        total = len(codes) + len(calls)
        for number, step in enumerate(steps):
            self._asker.send(["stage", "test"])
            self._program.last = ""
            if not self._passes(step):
                outcome = Outcome.OVER_LIMIT if self._out_of_memory else Outcome.WRONG
                return outcome, f"test {min(number + 1, total)} of {total}: {self._failure}"
        return Outcome.CORRECT, ""

    @property
    def _out_of_memory(self) -> bool:
        return self._program.out_of_memory or self._failure == _OUT_OF_MEMORY

    def _passes(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except MemoryError:
            self._failure = _OUT_OF_MEMORY
        except BaseException as error:  # noqa: BLE001 - also SystemExit, and what tests raise
            self._failure = self._described(error)
        # Tests may catch what they should not: that the program is gone counts all the same.
        self._failure = self._failure or self._program.failure
        return not self._failure

    def _run_code(self, code: CodeType) -> None:
        exec(code, self._names)

    def _run_defined(self) -> None:
        """Run what the tests defined: functions without arguments, and unittest's classes."""
        unittest: Any = sys.modules.get("unittest")  # loaded by the tests, if they need it
        for name, value in list(self._names.items()):
            if unittest and isinstance(value, type) and issubclass(value, unittest.TestCase):
                result = unittest.TestResult()
                result.failfast = True
                unittest.defaultTestLoader.loadTestsFromTestCase(value).run(result)
                for _, text in [*result.errors, *result.failures]:
                    raise AssertionError(text.strip().splitlines()[-1])
                if result.unexpectedSuccesses:
                    raise AssertionError("a test passed that should fail")
            elif name.startswith("test_") and callable(value) and not isinstance(value, Remote):
                value()

    def _run_call(self, call: dict[str, Any], entry_point: str) -> None:
        value = _called(self._program, call, entry_point)
        if "solved" in call:
            if type(value) is not type(call["solved"]) or value != call["solved"]:
                raise AssertionError("the other program returned something else")
        elif not same_value(value, call["returns"]):
            raise AssertionError(f"{json.dumps(call['returns'])[:100]} was expected")

    def _described(self, error: BaseException) -> str:
        """What happened: the line of the test, the exception, the latest call."""
        line = _line(error.__traceback__)
        what = "" if type(error) is AssertionError else type(error).__name__
        text = str(error)[:200] if not isinstance(error, KeyError) else repr(error)[:200]
        said = ": ".join(part for part in (what, text) if part) or "it does not hold"
        last = f" ({self._program.last})" if self._program.last else ""
        return f"{line[:160]}{': ' if line else ''}{said}{last}"


def same_value(value: Any, expected: Any) -> bool:
    """Whether what was returned is what a task's JSON says; a tuple is as good as a list.

    Keys of JSON are texts, so those of a dictionary are compared as texts.
    """
    if isinstance(value, list | tuple):
        return (
            isinstance(expected, list)
            and len(value) == len(expected)
            and all(map(same_value, value, expected))
        )
    if isinstance(value, dict):
        return (
            isinstance(expected, dict)
            and {str(key) for key in value} == set(expected)
            and len(value) == len(expected)
            and all(same_value(each, expected[str(key)]) for key, each in value.items())
        )
    return type(value) in (bool, int, float, str, type(None)) and bool(value == expected)


def _line(trace: TracebackType | None) -> str:
    """The innermost line of the tests that an exception went through."""
    lines = [frame.line or "" for frame in traceback.extract_tb(trace) if _is_test(frame.filename)]
    return lines[-1] if lines else ""


def _is_test(name: str) -> bool:
    return name.startswith("<test ")
