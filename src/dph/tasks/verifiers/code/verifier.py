"""The code verifier: a response is right if its program passes the problem's tests."""

import platform
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from dph._processes.sandbox.supervisor import ProcessLimits, StepLimits
from dph._processes.workers.pool import Reply, WorkerPool
from dph.errors import SettingsError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers.base import Gold, PooledVerifier, refused
from dph.tasks.verifiers.code.handler import GRACE_SECONDS, IN_ALL
from dph.tasks.verifiers.code.task import MARK, CodeTask, extract_program, parse_task

MEMORY_MB = 1000
_NO_PROGRAM = refused(Outcome.NO_ANSWER, "no program in the response")


@dataclass(frozen=True, slots=True)
class CodePair:
    """A task and a program."""

    task: CodeTask
    program: str


class CodeVerifier(PooledVerifier[CodePair]):
    """Runs a response's Python program against the tests of its problem, in confined processes.

    A problem's answer has the fields of dph.tasks.verifiers.code.task. The program runs in one
    process, the tests in another, which sees nothing of it but values; a script's output is
    compared here.

    Args:
        workers: number of worker processes, each of which runs one program at a time.
        timeout: seconds for one test, for loading the program, and for the setup; ten times that
            for all of them.
        memory_mb: address space of a process in units of 10^6 bytes, the interpreter's included.
        without: parts of the confinement to leave out, of dph._processes.sandbox.zygote.PARTS.

    Attributes:
        missing: what this machine does not offer of the confinement; docs/guides/grading.md
            says what that means.

    Raises:
        SettingsError: a number is out of range, or this is not Linux.
    """

    name = "code"
    version = "6"

    def __init__(
        self,
        *,
        workers: int = 1,
        timeout: float = 5.0,
        memory_mb: int = MEMORY_MB,
        without: Collection[str] = (),
    ) -> None:
        if not 0 < timeout < 1e5:
            raise SettingsError(f"timeout must lie in (0, 100000) seconds, got {timeout}")
        limits = ProcessLimits(memory_bytes=memory_mb * 1_000_000)
        self.settings: Mapping[str, Any] = {
            "timeout": float(timeout),
            "limits": asdict(limits),
            "python": ".".join(platform.python_version_tuple()[:2]),
        }
        steps = StepLimits(each=timeout, in_all=IN_ALL * timeout)
        self._pool = WorkerPool(
            handler="dph.tasks.verifiers.code.handler:make_code_grader",
            options={"steps": asdict(steps), "limits": asdict(limits), "without": sorted(without)},
            workers=workers,
            timeout=IN_ALL * timeout + GRACE_SECONDS,
        )
        self._pool.start("the code verifier")
        (reply,) = self._pool.run([{"missing": True}])
        self.missing: tuple[str, ...] = tuple(reply.value)

    def gold_of(self, response: str) -> Gold | None:
        """The response itself: which of its blocks is the program depends on the problem."""
        return None if extract_program(response, prefix=True) is None else {"same_as": response}

    def _pair(self, problem: Problem, response: str) -> CodePair | Verdict:
        task = parse_task(problem.answer, f"problem {problem.problem_id!r}")
        program = program_of(response, task)
        return _NO_PROGRAM if program is None else CodePair(task, program)

    def _replies(self, pairs: list[CodePair]) -> list[Reply]:
        requests = []
        for pair in pairs:
            # The program of the response that a task compares with.
            same_as = program_of(pair.task.same_as, pair.task) or pair.task.same_as
            task = asdict(replace(pair.task, same_as=same_as))
            requests.append({"program": pair.program.removeprefix(MARK), "task": task})
        return self._pool.run(requests)

    def _subject(self, pair: CodePair) -> str:
        return pair.program


def program_of(response: str, task: CodeTask) -> str | None:
    """The program of a response to a task, None if there is none."""
    return extract_program(response, entry_point=task.entry_point, prefix=bool(task.prefix))
