"""The worker's side of the code verifier: programs in, verdicts out.

The worker itself runs no code of a program or of a task. It starts confined processes by its
sandbox, waits for what a judge says, and compares what scripts print.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from dph._processes.sandbox.program import NOT_LOADED
from dph._processes.sandbox.supervisor import ProcessLimits, Sandbox, ScriptEnd, StepLimits
from dph._processes.workers.handler import TellStage
from dph.errors import SettingsError
from dph.records import Outcome

# Outputs are compared as LiveCodeBench does it: the texts are stripped and cut into lines, each
# line is stripped, and a line is right if it is equal, or if its words are the same numbers,
# compared exactly: 1.0 for 1, not 0.3333 for 1/3. The number of lines must be the same.

_LONGEST_NUMBER = 1000


def same_output(printed: str, expected: str) -> bool:
    r"""True if two outputs are the same.

    >>> same_output("1.0  2\nyes \n", "1 2.00\nyes"), same_output("1 2", "1\n2")
    (True, False)
    """
    ours, theirs = _lines(printed), _lines(expected)
    return len(ours) == len(theirs) and all(map(_same_line, ours, theirs))


def first_difference(printed: str, expected: str) -> str:
    ours, theirs = _lines(printed), _lines(expected)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), start=1):
        if not _same_line(one, other):
            return f"line {number} is {one[:80]!r}, {other[:80]!r} was expected"
    return f"{len(ours)} lines were printed, {len(theirs)} expected"


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(one: str, other: str) -> bool:
    if one == other:
        return True
    ours, theirs = one.split(), other.split()
    return len(ours) == len(theirs) and all(map(_same_number, ours, theirs))


def _same_number(one: str, other: str) -> bool:
    if max(len(one), len(other)) > _LONGEST_NUMBER:
        return False
    try:
        ours, theirs = Decimal(one), Decimal(other)
    except InvalidOperation:
        return False
    return ours.is_finite() and theirs.is_finite() and ours == theirs


IN_ALL = 10.0
"""Limit of all tests of a program, in limits of one test."""
GRACE_SECONDS = 10.0
"""Seconds that the worker may take longer before it is killed itself."""

Answer = tuple[Outcome, float, str]
_SLOW_TO_LOAD = (
    (re.compile(r"\b(?:async|asyncio|unittest)\b"), ("asyncio", "unittest")),
    (re.compile(r"\b(?:numpy|np)\b"), ("asyncio", "unittest", "numpy")),
    (re.compile(r"\b(?:pandas|pd)\b"), ("asyncio", "unittest", "numpy", "pandas")),
)
"""Names in texts, and the modules that are loaded for them; each with all before it, so that there
are few."""


class CodeGrader:
    """Grades requests ``{"program", "task"}``, or answers ``{"missing": true}`` what is missing.

    ``make_sandbox`` is given the modules to load once for all programs. numpy takes half a
    second, and what is loaded costs each fork: another sandbox, made when a text names it, has it.
    """

    def __init__(
        self, make_sandbox: Callable[[Sequence[str]], Sandbox], limits: StepLimits
    ) -> None:
        self._make_sandbox = make_sandbox
        self._sandbox = make_sandbox(())
        self._sandboxes: dict[tuple[str, ...], Sandbox] = {(): self._sandbox}
        self._limits = limits
        self.missing = self._sandbox.missing

    def __call__(self, request: Mapping[str, Any], stage: TellStage) -> Any:
        """Grade one program: (outcome, reward, reason)."""
        if "missing" in request:
            return list(self.missing)
        stage("program", self._limits.in_all + GRACE_SECONDS)
        task = request["task"]
        self._sandbox = self._sandbox_for(task, request["program"])
        if task["scripts"]:
            return self._grade_script(request["program"], task)
        around = {"prefix": task["prefix"], "entry_point": task["entry_point"]}
        judged = self._sandbox.run_tests(
            {"source": request["program"], **around},
            {n: task[n] for n in ("setup", "tests", "calls", "entry_point", "prefix")},
            self._limits,
            solution={"source": task["same_as"], **around} if task["same_as"] else None,
        )
        if judged.outcome is not None:
            return judged.outcome, float(judged.outcome is Outcome.CORRECT), judged.reason
        if judged.stage == "setup":
            how = "took too long" if judged.late else "died"
            return Outcome.BAD_GOLD, 0.0, f"the setup {how}"
        where = "while it was loaded" if judged.stage == "load" else "in a test"
        if judged.late:
            limits = f"over {self._limits.each:g} s, or {self._limits.in_all:g} s in all"
            return Outcome.TIMED_OUT, 0.0, f"killed {where}: {limits}"
        # The judge died over what the program gave it: too deep, too large.
        return Outcome.WRONG, 0.0, f"its values ended the tests {where}"

    def run(self, program: str, stdin: str) -> ScriptEnd:
        empty: Mapping[str, Any] = {"prefix": "", "setup": "", "tests": (), "same_as": ""}
        sandbox = self._sandbox_for(empty, program)
        return sandbox.run_script(program, stdin, seconds=self._limits.each)

    def _sandbox_for(self, task: Mapping[str, Any], program: str) -> Sandbox:
        """The sandbox that has loaded what the texts name."""
        texts = [task["prefix"], task["setup"], *task["tests"], task["same_as"], program]
        needed: tuple[str, ...] = ()
        for name, modules in _SLOW_TO_LOAD:
            needed = modules if any(map(name.search, texts)) else needed
        if needed not in self._sandboxes:
            self._sandboxes[needed] = self._make_sandbox(needed)
        return self._sandboxes[needed]

    def _grade_script(self, source: str, task: Mapping[str, Any]) -> Answer:
        source, left = f"{task['prefix']}{source}", self._limits.in_all
        total = len(task["scripts"])
        for number, case in enumerate(task["scripts"], start=1):
            expected = case.get("stdout")
            if expected is None:
                solution, each = f"{task['prefix']}{task['same_as']}", self._limits.each
                ended = self._sandbox.run_script(solution, case["stdin"], seconds=each)
                expected = ended.output.decode("utf-8", "replace")
                if failed := _script_failure(ended, expected, each):
                    return Outcome.BAD_GOLD, 0.0, f"the other program: {failed[1]}"
            seconds = min(self._limits.each, left)
            ended = self._sandbox.run_script(source, case["stdin"], seconds=seconds)
            left -= ended.seconds
            if failed := _script_failure(ended, expected, seconds):
                outcome, reason = failed
                return outcome, 0.0, f"test {number} of {total}: {reason}"
            if left <= 0 and number < total:
                return Outcome.TIMED_OUT, 0.0, f"all tests took over {self._limits.in_all:g} s"
        return Outcome.CORRECT, 1.0, ""


_ONE_OF_THEM = ("system calls", "namespaces")


def make_code_grader(options: Mapping[str, Any]) -> CodeGrader:
    """The worker's handler; ``options`` are ``steps``, ``limits`` and ``without``."""

    def make(preload: Sequence[str]) -> Sandbox:
        limits = ProcessLimits(**options["limits"])
        return Sandbox(limits, without=options["without"], preload=preload)

    steps = options["steps"]
    grader = CodeGrader(make, steps if isinstance(steps, StepLimits) else StepLimits(**steps))
    missing = grader.missing
    lacking = [each for each in _ONE_OF_THEM if any(m.startswith(each) for m in missing)]
    if len(lacking) == len(_ONE_OF_THEM):
        raise SettingsError(
            f"programs cannot be isolated from other processes here: {', '.join(missing)}; a "
            f"filter of system calls (seccomp) or namespaces are needed"
        )
    return grader


def _script_failure(ended: ScriptEnd, expected: str, seconds: float) -> tuple[Outcome, str] | None:
    """Fault of a run, None if there is none."""
    said = ended.errors.splitlines()[-1][:300] if ended.errors else ""
    if ended.over_output:
        return Outcome.OVER_LIMIT, "it printed too much"
    if ended.code is None or ended.code in _OUT_OF_TIME:
        return Outcome.TIMED_OUT, f"killed after {seconds:g} s"
    if ended.code == NOT_LOADED:
        return Outcome.INVALID, said
    if ended.code:
        how = f"exit code {ended.code}" if ended.code > 0 else f"killed by signal {-ended.code}"
        outcome = Outcome.OVER_LIMIT if said.startswith("MemoryError") else Outcome.WRONG
        return outcome, f"{how}: {said}" if said else how
    printed = ended.output.decode("utf-8", "replace")
    if not same_output(printed, expected):
        return Outcome.WRONG, first_difference(printed, expected)
    return None


_OUT_OF_TIME = (-24, -9)
"""SIGXCPU, or the kernel's SIGKILL after it."""
