"""The user's own verifier: a function by its import path, run in killable worker processes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dph.closing import Closing
from dph.errors import SettingsError, VerifierError
from dph.import_path import require_one_module, source_fingerprint
from dph.records import Outcome, Problem, Verdict
from dph.workers.pool import Reply, ReplyKind, WorkerPool


class FunctionVerifier(Closing):
    """Calls ``function(response, problem)``, which returns a bool, a number in [0, 1] or a Verdict.

    The function runs in worker processes and is killed when it takes longer than ``timeout``.
    ``version`` changes with the file that holds it, but not with what that file imports.

    Args:
        path: import path ``module:function``.
        workers: number of worker processes.
        timeout: seconds for one answer.
        directories: where the module is looked for first; without any, the current directory is
            searched, too.

    Raises:
        SettingsError: the function cannot be imported, or a setting is out of range.
    """

    version = "1"

    def __init__(
        self,
        path: str,
        *,
        workers: int = 1,
        timeout: float = 5.0,
        directories: Sequence[Path] = (),
    ) -> None:
        self.name = path
        require_one_module(path, directories)
        self._pool = WorkerPool(
            handler="dph.verifiers.function_handler:make_function_grader",
            options={"path": path, "directories": [str(d.resolve()) for d in directories]},
            workers=workers,
            timeout=timeout,
        )
        if reason := self._pool.start():
            self.close()
            raise SettingsError(f"the verifier {path!r} cannot be used: {reason}")
        # Verdicts of an earlier version of the function must not pass for those of this one.
        fingerprint = source_fingerprint(path.partition(":")[0], directories)
        self.version = f"{self.version} {fingerprint}".rstrip()

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            VerifierError: the function raised, returned something that is no verdict, or a
                problem's answer is not JSON.
        """
        pairs = list(zip(problems, responses, strict=True))
        requests = [_request(problem, response) for problem, response in pairs]
        try:
            replies = self._pool.run(requests)
        except TypeError as error:
            raise VerifierError(
                f"{self.name!r} gets its problems as JSON, and one is none: {error}"
            ) from error
        return [
            self._verdict(reply, problem) for reply, problem in zip(replies, problems, strict=True)
        ]

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._pool.close()

    def _verdict(self, reply: Reply, problem: Problem) -> Verdict:
        match reply.kind:
            case ReplyKind.OK:
                outcome, reward, reason = reply.value
                return Verdict(outcome=Outcome(outcome), reward=reward, reason=reason)
            case ReplyKind.TIMED_OUT:
                return Verdict(outcome=Outcome.TIMED_OUT, reward=0.0, reason=reply.reason)
            case ReplyKind.CRASHED:
                return Verdict(outcome=Outcome.CRASHED, reward=0.0, reason=reply.reason)
            case _:
                raise VerifierError(
                    f"the verifier {self.name!r} failed on problem {problem.problem_id!r}: "
                    f"{reply.reason}"
                )


def _request(problem: Problem, response: str) -> dict[str, Any]:
    return {
        "response": response,
        "problem_id": problem.problem_id,
        "prompt": problem.prompt,
        "answer": dict(problem.answer),
    }
