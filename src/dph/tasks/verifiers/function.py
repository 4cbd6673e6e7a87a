"""The user's own verifier: a function, run in worker processes that can be killed."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

from dph._base.import_path import (
    import_path_of,
    load_callable,
    require_one_module,
    source_file,
    source_fingerprint,
)
from dph._processes.workers.handler import TellStage
from dph._processes.workers.pool import Reply, WorkerPool
from dph.errors import SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers import signatures
from dph.tasks.verifiers.base import PooledVerifier
from dph.tasks.verifiers.signatures import RewardFunction

# The child's side of the function verifier: call the user's function, check what it returns.

_REASON_CHARACTERS = 500
_ERROR_CHARACTERS = 200
_TRACEBACK_CHARACTERS = 1500
_OWN_FILES = (__file__, signatures.__file__)

_importing: list[str] = []
"""The import path of the function that this worker is importing at the moment."""


class FunctionGrader:
    """Grades requests ``{"response", "problem_id", "prompt", "answer"}``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = RewardFunction(function)

    def __call__(self, request: Mapping[str, Any], stage: TellStage) -> tuple[str, float, str]:
        """Call the function; the answer is (outcome, reward, reason).

        Whatever the function raises is its doing and CRASHED, and so is a value that is no
        verdict: one answer is lost, not the run.
        """
        del stage
        problem = requested_problem(request)
        try:
            value = self._function(request["response"], problem)
        except (Exception, SystemExit) as error:  # noqa: BLE001
            return Outcome.CRASHED, 0.0, describe_crash(error)
        try:
            verdict = as_verdict(value)
        except Exception as error:  # noqa: BLE001 - a value may raise in all it is asked
            return Outcome.CRASHED, 0.0, str(error)[:_REASON_CHARACTERS]
        return verdict.outcome, float(verdict.reward), str(verdict.reason)[:_REASON_CHARACTERS]


def requested_problem(request: Mapping[str, Any]) -> Problem:
    """The problem of a request, as a user's function gets it."""
    prompt = request["prompt"]
    return Problem(
        problem_id=request["problem_id"],
        prompt=prompt if isinstance(prompt, str) else tuple(prompt),
        answer=request["answer"],
    )


def as_verdict(value: object) -> Verdict:
    """Result of a user's function, as a verdict.

    True and 1 are CORRECT. Any other number in [0, 1] is WRONG, with that reward. Scalars of
    numpy, torch and the like count as what they hold.
    """
    if isinstance(value, Verdict):
        if value.outcome is Outcome.CORRECT or value.reason:
            return value
        return replace(value, reason=f"the function returned {value.outcome} without a reason")
    plain = _plain(value)
    if not isinstance(plain, Real | Decimal):
        raise TypeError(
            f"it returned {value!r:.80} ({type(value).__name__}); "
            "a bool, a number in [0, 1] or a Verdict is allowed"
        )
    number: Any = plain  # not all that Real stands for is typed to be compared
    if not 0 <= number <= 1:
        raise ValueError(f"it returned {value!r:.80}; a number must lie in [0, 1]")
    reward = float(number)
    outcome = Outcome.CORRECT if reward == 1.0 else Outcome.WRONG
    if reward == 1.0:
        reason = ""
    else:
        reason = f"partial reward {reward:g}" if reward else f"the function returned {plain!r:.80}"
    return Verdict(outcome=outcome, reward=reward, reason=reason)


def describe_crash(error: BaseException) -> str:
    """The error in a line, and the end of its traceback from the user's function on."""
    below = error.__traceback__
    while below and below.tb_frame.f_code.co_filename in _OWN_FILES:
        below = below.tb_next
    lines = "".join(traceback.format_exception(type(error), error, below)).rstrip()
    if len(lines) > _TRACEBACK_CHARACTERS:
        lines = "..." + lines[-_TRACEBACK_CHARACTERS:]
    summary = next(line for line in traceback.format_exception_only(error) if line[:1] != " ")
    return f"{summary.splitlines()[0][:_ERROR_CHARACTERS]}\n{lines}"


def make_function_grader(options: Mapping[str, Any]) -> FunctionGrader:
    """The worker's handler: the function of ``options["path"]``, found in the ``directories``."""
    directories = [Path(directory) for directory in options.get("directories", ())]
    _importing.append(options["path"])
    try:
        return FunctionGrader(load_callable(options["path"], directories))
    finally:
        _importing.pop()


def refuse_while_importing(path: str) -> None:
    """Refuse a verifier that is made while a worker imports a function: that would never end."""
    module = path.partition(":")[0]
    if module in [each.partition(":")[0] for each in _importing]:
        raise SettingsError(
            f"importing {module!r} makes a verifier of {path!r}, whose workers would import it "
            "again; put the script's code under: if __name__ == '__main__':"
        )


def _plain(value: object) -> object:
    """A scalar of an array library as the Python value it holds; anything else as it is."""
    # Found by what they have in common, so that no worker has to import numpy.
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "ndim", None) == 0 else value


class FunctionVerifier(PooledVerifier[tuple[Problem, str]]):
    """Calls ``function(response, problem)``, which returns a bool, a number in [0, 1] or a Verdict.

    Reward functions of TRL, verl and verifiers are recognised by their parameters and called as
    these call them (dph.tasks.verifiers.signatures).

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
            handler="dph.tasks.verifiers.function:make_function_grader",
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

    def _pair(self, problem: Problem, response: str) -> tuple[Problem, str]:
        return problem, response

    def _replies(self, pairs: list[tuple[Problem, str]]) -> list[Reply]:
        try:
            return self._pool.run([request_of(*pair) for pair in pairs])
        except TypeError as error:
            raise VerifierError(
                f"{self.name!r} gets its problems as JSON, and one is not valid JSON: {error}"
            ) from error

    def _subject(self, pair: tuple[Problem, str]) -> str:
        return f"problem {pair[0].problem_id}"


def request_of(problem: Problem, response: str) -> dict[str, Any]:
    """The request of a worker: a problem and a response to it, as JSON."""
    return {
        "response": response,
        "problem_id": problem.problem_id,
        "prompt": problem.prompt,
        "answer": dict(problem.answer),
    }
