"""The SQL verifier: a response is right if its SQL returns the gold's rows (BIRD's rule).

Source: Li et al., "Can LLM Already Serve as A Database Interface?" (BIRD), execution accuracy:
``set(predicted rows) == set(gold rows)``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from dph.errors import VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.verifiers.closing import Closing
from dph.verifiers.sql_executor import SQLLimits
from dph.verifiers.sql_extraction import extract_sql
from dph.verifiers.sql_grading import GOLD_STAGE
from dph.verifiers.workers import Reply, ReplyKind, WorkerPool

# Beyond the time limit that the worker keeps itself; then it is killed.
_GRACE_SECONDS = 1.0

_NO_SQL = Verdict(outcome=Outcome.NO_ANSWER, reward=0.0, reason="no SQL in the response")


class SQLVerifier(Closing):
    """Runs the gold and the response's SQL on a read-only database in a worker process.

    A problem's answer has ``gold_sql`` and ``database``, the path of the SQLite file.

    Args:
        databases: where relative paths start; by default the current directory.
        workers: number of worker processes.
        timeout: seconds for one statement.
        limits: the other limits of a statement; its ``seconds`` are ``timeout``.

    Raises:
        SettingsError: ``workers`` or ``timeout`` is out of range.
    """

    name = "sql"
    version = "1"

    def __init__(
        self,
        *,
        databases: Path | None = None,
        workers: int = 1,
        timeout: float = 5.0,
        limits: SQLLimits | None = None,
    ) -> None:
        self._databases = (databases or Path()).absolute()
        self._pool = WorkerPool(
            handler="dph.verifiers.sql_grading:make_sql_grader",
            options=asdict(limits or SQLLimits()) | {"seconds": timeout},
            workers=workers,
            timeout=timeout + _GRACE_SECONDS,
        )

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            VerifierError: a problem has no ``gold_sql`` or ``database``, or a worker failed.
        """
        verdicts = [_NO_SQL] * len(problems)
        requests: list[Mapping[str, str]] = []
        indices: list[int] = []
        for index, (problem, response) in enumerate(zip(problems, responses, strict=True)):
            gold, database = _answer(problem, "gold_sql"), _answer(problem, "database")
            if found := extract_sql(response):
                path = str(self._databases / database)
                requests.append({"database": path, "gold": gold, "sql": found.statement})
                indices.append(index)
        for index, reply in zip(indices, self._pool.run(requests), strict=True):
            verdicts[index] = _verdict(reply, problems[index])
        return verdicts

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._pool.close()


def _answer(problem: Problem, field: str) -> str:
    value = problem.answer.get(field)
    if not isinstance(value, str) or not value:
        raise VerifierError(
            f"the sql verifier needs a text {field!r} in problem {problem.problem_id!r}, "
            f"got {value!r}; its fields are {sorted(problem.answer)}"
        )
    return value


def _verdict(reply: Reply, problem: Problem) -> Verdict:
    match reply.kind:
        case ReplyKind.OK:
            outcome, reason = Outcome(reply.value[0]), reply.value[1]
        case ReplyKind.TIMED_OUT | ReplyKind.CRASHED if reply.stage == GOLD_STAGE:
            outcome, reason = Outcome.BAD_GOLD, f"the gold SQL failed: {reply.reason}"
        case ReplyKind.TIMED_OUT:
            outcome, reason = Outcome.TIMED_OUT, reply.reason
        case ReplyKind.CRASHED:
            outcome, reason = Outcome.CRASHED, reply.reason
        case _:
            raise VerifierError(
                f"the sql verifier failed on problem {problem.problem_id!r}: {reply.reason}"
            )
    return Verdict(outcome=outcome, reward=float(outcome is Outcome.CORRECT), reason=reason)
