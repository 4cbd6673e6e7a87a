"""The process that tests a program in another process, and says what came of it.

It runs the task's own code: ``setup``, then each of ``tests`` and what it defines
(dph._processes.sandbox.frameworks), then ``calls``: arguments, and what has to be returned. A test
in which nothing was checked is no test (dph._processes.sandbox.checks). The verdict goes over a
connection that the program does not have.
"""

import copy
import inspect
import json
import linecache
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from types import TracebackType
from typing import Any

from dph._processes.sandbox import checks
from dph._processes.sandbox.checks import Checked, checked
from dph._processes.sandbox.forms import NOT_SUPPORTED, refuse_forms
from dph._processes.sandbox.frameworks import Defined, awaited
from dph._processes.sandbox.left import SETUP, TESTS, Statement
from dph._processes.sandbox.names import (
    TaskError,
    TestNames,
    completed,
    provide_modules,
    seed_both,
    seed_everything,
)
from dph._processes.sandbox.remote import ProgramGoneError, RemoteProgram, is_of_program
from dph._processes.sandbox.remote_object import Remote
from dph._processes.sandbox.values import Channel, ChannelClosedError, read_document
from dph.records import Outcome

# What the changed tests of a task tell while they run (dph._processes.sandbox.checks).


class CheckCounts:
    """Number of checks that were reached, and the ones that failed.

    Attributes:
        reached: checks, so far.
        looped: whether the text that runs began a loop, or a branch, around checks.
        asked: what the program had been asked when that text began.
        hooks: the functions that changed tests call, by their names.
    """

    def __init__(self, program: RemoteProgram) -> None:
        self._program = program
        self._failed: list[BaseException] = []
        self._open = 0
        self.reached = 0
        self.looped = False
        self.asked = 0
        self.hooks: Mapping[str, Callable[..., Any]] = {
            checks.BEGINS: self._begins,
            checks.AFTER: self._after,
            checks.SEEN: program.left.seen,
            checks.REACHED: self.reach,
            checks.CHECKED: self._checked,
            checks.LOOPS: self._loops,
            checks.HELD: self._holds,
            checks.FAILED: self._fails,
            checks.HANDLED: self._handled,
        }

    def start(self, asked: int) -> int:
        """A text begins; how many checks were reached before it."""
        self.forgive()
        self.looped, self.asked = False, asked
        return self.reached

    def reach(self, is_assertion: bool = False) -> None:
        """Record that a check is reached; an assertion must hold or fail before the text ends."""
        self.reached += 1
        self._open += is_assertion

    def failure(self) -> str:
        """The check that failed or did not finish although the tests continued; or ''."""
        if self._failed:
            text = str(self._failed[0])
            return f"an assertion failed, and the tests continued{': ' if text else ''}{text}"
        return "an assertion did not finish, and the tests continued" if self._open > 0 else ""

    def forgive(self) -> None:
        """Forgive the failures so far: they were expected."""
        self._failed.clear()
        self._open = 0

    def _begins(self, kind: int) -> None:
        self._program.begin(sys._getframe(1), kind)

    def _after(self, value: Any) -> Any:
        self._program.begin(sys._getframe(1), Statement.CHECKS)
        return value

    def _loops(self) -> None:
        self.looped = True

    def _holds(self) -> None:
        self._open -= 1

    def _fails(self, error: Any, of_assertion: bool = False) -> Any:
        """Note an assertion that fails: an exception, the class of one, or a text."""
        self._open -= of_assertion
        error = error() if isinstance(error, type) else error
        error = AssertionError(error) if isinstance(error, str) else error
        self._failed.append(error)
        return error

    def _checked(self, call: Any) -> Any:
        """A call that checks, which tells when it fails."""
        self.reached += 1
        if isinstance(call, type | Remote):
            return call

        @wraps(call)
        def telling(*given: Any, **named: Any) -> Any:
            try:
                return call(*given, **named)
            except AssertionError as error:
                self._failed.append(error)
                raise

        return telling

    def _handled(self) -> None:
        """The exception that is handled now comes to something; where there is none, all did."""
        current = sys.exc_info()[1]
        kept = [each for each in self._failed if current is not None and each is not current]
        self.forgive()
        self._failed[:] = kept


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


def _judge(
    job: dict[str, Any],
    asker: Channel,
    program: RemoteProgram,
    solution: RemoteProgram | None = None,
) -> tuple[Outcome, str]:
    entry_point = job["entry_point"]
    names = TestNames(program, entry_point, job["prefix"])
    asker.send(["stage", "setup"])
    provide_modules(program, [job["setup"], job["prefix"], *job["tests"]])
    seed_everything()
    try:
        texts = enumerate(job["tests"], start=1)
        tests = [_compiled(text, f"{TESTS}{i}>", entry_point) for i, text in texts]
        setup = job["setup"]
        setup = completed(setup) if setup == job["prefix"] else setup
        compiled = _compiled(setup, SETUP, entry_point)
        refuse_forms([setup, *job["tests"]], job["prefix"], entry_point)
        _run_setup(compiled, names)
        calls = job["calls"]
        if solution is not None:
            calls = [
                _solved(each, solution, entry_point, asker) for each in _loaded(solution, calls)
            ]
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
    names.pop(needed, None)  # the stub that the setup may have
    seed_both(program)
    try:
        return _Trial(program, names, asker).run(tests, calls, entry_point)
    except TaskError as error:
        return Outcome.BAD_GOLD, str(error)


def _compiled(text: str, name: str, entry_point: str) -> Checked:
    try:
        test = checked(text, name, finds_truths=not entry_point)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise TaskError(f"the tests do not compile: {type(error).__name__}: {error}") from error
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return test


def _run_setup(setup: Checked, names: TestNames) -> None:
    names.update(checks.NOTHING)
    try:
        exec(setup.code, names)
    except (Exception, SystemExit) as error:
        raise TaskError(f"the setup failed: {type(error).__name__}: {error}") from error


def _loaded(solution: RemoteProgram, calls: list[Any]) -> list[Any]:
    """The calls, once the solution can be called."""
    try:
        failed = solution.load()
    except ProgramGoneError as error:
        raise TaskError(f"the other program: {error}") from error
    if failed:
        raise TaskError(f"the other program: {failed}")
    return calls


def _solved(
    call: dict[str, Any], solution: RemoteProgram, entry_point: str, asker: Channel
) -> dict[str, Any]:
    """A call with what the solution returns."""
    asker.send(["stage", "setup"])
    try:
        value, left = _called(solution, call, entry_point)
    except (Exception, ProgramGoneError) as error:
        raise TaskError(f"the other program: {type(error).__name__}: {error}") from error
    return {**call, "solved": value, "left": left}


def _called(program: RemoteProgram, call: dict[str, Any], entry_point: str) -> tuple[Any, Any]:
    """Result of a call, and its changes to its arguments."""
    given, named = copy.deepcopy((call["args"], call["kwargs"]))
    name, _, method = entry_point.partition(".")
    function = program.named(name)
    if method:
        function = getattr(function(), method)
    value = function(*given, **named)
    value = awaited(value) if inspect.iscoroutine(value) else value
    program.settle()
    return value, (given, named)


class _Trial:
    """Runs the tests until one fails."""

    def __init__(self, program: RemoteProgram, names: TestNames, asker: Channel) -> None:
        self._program = program
        self._names = names
        self._asker = asker
        self._failure = ""
        self._counts = CheckCounts(program)
        names.update(self._counts.hooks)

    def run(
        self, tests: Sequence[Checked], calls: Sequence[Any], entry_point: str
    ) -> tuple[Outcome, str]:
        """The verdict."""
        self._program.awaits = any(test.is_asynchronous for test in tests)
        counts: list[int] = []
        self._program.asked = 0
        steps: list[Callable[[], None]] = [
            partial(self._run_test, test, entry_point, counts) for test in tests
        ]
        steps += [partial(self._run_call, each, entry_point) for each in calls]
        for number, step in enumerate(steps):
            self._asker.send(["stage", "test"])
            self._program.last = ""
            if not self._passes(step):
                outcome = Outcome.OVER_LIMIT if self._out_of_memory else Outcome.WRONG
                return outcome, f"test {number + 1} of {len(steps)}: {self._failure}"
        for number, (test, count) in enumerate(zip(tests, counts, strict=True)):
            _require_checked(test, count, f"test {number + 1} of {len(steps)}")
        if not sum(counts) and not calls:
            raise TaskError("the tests assert nothing")
        if not self._program.asked:
            raise TaskError(f"the tests never use the program{self._names.shadowed}")
        self._names.require_one_function(frozenset().union(*(test.truths for test in tests)))
        return Outcome.CORRECT, ""

    @property
    def _out_of_memory(self) -> bool:
        return self._program.out_of_memory or self._failure == _OUT_OF_MEMORY

    def _passes(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except MemoryError:
            self._failure = _OUT_OF_MEMORY
        except TaskError:
            raise
        except BaseException as error:  # noqa: BLE001 - also SystemExit, and what tests raise
            self._failure = self._described(error)
        if self._program.refused:
            raise TaskError(f"{NOT_SUPPORTED}: {self._program.refused}")
        # Tests may catch what they should not: that the program is gone counts all the same.
        self._failure = self._failure or self._program.failure or self._counts.failure()
        return not self._failure

    def _run_test(self, test: Checked, entry_point: str, counts: list[int]) -> None:
        """Run a text and the tests that it defines; note how many checks were reached."""
        before, counts_before = dict(self._names), self._counts.start(self._program.asked)
        try:
            _exec(test, self._names)
            self._program.settle()
            candidate = self._names["candidate"] if entry_point else None
            defined = Defined(
                self._names, before, candidate, self._counts.reach, self._counts.forgive
            )
            defined.run(needs_check=self._counts.reached == counts_before)
        except (ImportError, NameError) as error:
            if _is_of_tests(error, entry_point):
                raise TaskError(f"the tests: {type(error).__name__}: {error}") from error
            raise
        counts.append(self._counts.reached - counts_before)
        if not counts[-1] and self._counts.looped and self._program.asked > self._counts.asked:
            raise AssertionError(
                "no assertion ran: the values that the program returned left none to run"
            )

    def _run_call(self, call: dict[str, Any], entry_point: str) -> None:
        value, left = _called(self._program, call, entry_point)
        if "solved" in call:
            if type(value) is not type(call["solved"]) or value != call["solved"]:
                raise AssertionError("the other program returned something else")
            if value is None and left != call["left"]:
                raise AssertionError("the other program changed its arguments differently")
        elif not same_value(value, call["returns"]):
            raise AssertionError(f"{json.dumps(call['returns'])[:100]} was expected")

    def _described(self, error: BaseException) -> str:
        """Description of the event: the line of the test, the exception, the latest call."""
        line = _line(error.__traceback__)
        what = "" if type(error) is AssertionError else type(error).__name__
        text = str(error)[:200] if not isinstance(error, KeyError) else repr(error)[:200]
        said = ": ".join(part for part in (what, text) if part) or "it does not hold"
        last = f" ({self._program.last})" if self._program.last else ""
        return f"{line[:160]}{': ' if line else ''}{said}{last}"


def _exec(test: Checked, names: TestNames) -> None:
    """Run a text; that it ends the interpreter without an error ends the text alone."""
    try:
        exec(test.code, names)
    except SystemExit as error:
        if error.code not in (None, 0, False) or is_of_program(error):
            raise


def _require_checked(test: Checked, count: int, which: str) -> None:
    """Refuse a text in which nothing was checked, but what others use."""
    if count:
        return
    if test.checks:
        raise TaskError(f"{which} has assertions, and none of them ran")
    if not test.is_setup:
        raise TaskError(f"{which} asserts nothing")


def _is_of_tests(error: ImportError | NameError, entry_point: str) -> bool:
    """Whether the tests themselves lack something, not the program one of its functions."""
    if is_of_program(error):
        return False
    return isinstance(error, ImportError) or bool(entry_point)


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
    return name.startswith(TESTS)
