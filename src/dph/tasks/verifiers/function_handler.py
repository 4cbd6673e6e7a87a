"""The child's side of the function verifier: call the user's function, check what it returns."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

from dph._base.import_path import (
    load_callable,
)
from dph._processes.workers.handler import TellStage
from dph.errors import SettingsError
from dph.records import Outcome, Problem, Verdict

_REASON_CHARACTERS = 500
_ERROR_CHARACTERS = 200
_TRACEBACK_CHARACTERS = 1500

_importing: list[str] = []
"""The import path of the function that this worker is importing at the moment."""


class FunctionGrader:
    """Grades requests ``{"response", "problem_id", "prompt", "answer"}``."""

    def __init__(self, function: Callable[[str, Problem], Any]) -> None:
        self._function = function

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

    Raises:
        TypeError: it is not a bool, a number or a Verdict.
        ValueError: it is a number outside [0, 1].
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
    below = error.__traceback__.tb_next if error.__traceback__ else None
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
    """Refuse a verifier that is made while a worker imports a function: that would never end.

    Raises:
        SettingsError: this process is such a worker.
    """
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
