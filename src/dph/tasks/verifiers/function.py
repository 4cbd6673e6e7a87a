"""The user's own verifier: a function, run in worker processes that can be killed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dph._base.closing import Closing
from dph._base.import_path import (
    import_path_of,
    require_one_module,
    source_file,
    source_fingerprint,
)
from dph._processes.workers.pool import WorkerPool, verdict_of
from dph.errors import SettingsError, VerifierError
from dph.records import Problem, Verdict
from dph.tasks.verifiers.function_handler import refuse_while_importing


class FunctionVerifier(Closing):
    """Calls ``function(response, problem)``, which returns a bool, a number in [0, 1] or a Verdict.

    The function runs in worker processes and is killed when it takes longer than ``timeout``. If
    it raises, or returns something that is not a verdict, that one answer is CRASHED, and the
    reason ends with the traceback.

    ``version`` changes with the file that holds the function, but not with what that file imports.
    ``source`` is that file, and its name stands in ``settings``, so that whoever finds another
    version can say which file was changed.

    Args:
        function: a function that a module defines, or its import path ``module:function``.
        workers: number of worker processes.
        timeout: seconds for one answer.
        directories: where the module is looked for first; without any, the current directory is
            searched, too.

    Raises:
        SettingsError: the function cannot be imported by another process, or a setting is out
            of range.
    """

    version = "1"

    def __init__(
        self,
        function: str | Callable[[str, Problem], Any],
        *,
        workers: int = 1,
        timeout: float = 5.0,
        directories: Sequence[Path] = (),
    ) -> None:
        path = function if isinstance(function, str) else import_path_of(function)
        refuse_while_importing(path)
        self.name = path
        require_one_module(path, directories)
        self._pool = WorkerPool(
            handler="dph.tasks.verifiers.function_handler:make_function_grader",
            options={"path": path, "directories": [str(d.resolve()) for d in directories]},
            workers=workers,
            timeout=timeout,
        )
        if reason := self._pool.start():
            self.close()
            raise SettingsError(f"the verifier {path!r} cannot be used: {reason}")
        self.source = source_file(path.partition(":")[0], directories)
        self.settings: Mapping[str, Any] = {
            "timeout": float(timeout),
            "source": self.source.name if self.source else "",
        }
        # Verdicts of an earlier version of the function must not pass for those of this one.
        fingerprint = source_fingerprint(path.partition(":")[0], directories)
        self.version = f"{self.version} {fingerprint}".rstrip()

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            VerifierError: a problem's answer is not JSON, or a worker that replaces another one
                cannot import the function any more.
        """
        pairs = list(zip(problems, responses, strict=True))
        requests = [_request(problem, response) for problem, response in pairs]
        try:
            replies = self._pool.run(requests)
        except TypeError as error:
            raise VerifierError(
                f"{self.name!r} gets its problems as JSON, and one is not valid JSON: {error}"
            ) from error
        return [
            verdict_of(reply, verifier=self.name, subject=f"problem {problem.problem_id}")
            for reply, problem in zip(replies, problems, strict=True)
        ]

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._pool.close()


def _request(problem: Problem, response: str) -> dict[str, Any]:
    return {
        "response": response,
        "problem_id": problem.problem_id,
        "prompt": problem.prompt,
        "answer": dict(problem.answer),
    }
