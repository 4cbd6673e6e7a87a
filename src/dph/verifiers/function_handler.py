"""The child's side of the function verifier: call the user's function, check what it returns."""

from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from dph.import_path import load_callable
from dph.records import Outcome, Problem, Verdict

_REASON_CHARACTERS = 500


class FunctionGrader:
    """Grades requests ``{"response", "problem_id", "prompt", "answer"}``."""

    def __init__(self, function: Callable[[str, Problem], Any]) -> None:
        self._function = function

    def __call__(
        self, request: Mapping[str, Any], stage: Callable[[str], None]
    ) -> tuple[str, float, str]:
        """Call the function; the answer is (outcome, reward, reason).

        Raises:
            TypeError: it returned something else than a bool, a number or a Verdict.
            ValueError: it returned a number outside [0, 1].
        """
        del stage
        prompt = request["prompt"]
        problem = Problem(
            problem_id=request["problem_id"],
            prompt=prompt if isinstance(prompt, str) else tuple(prompt),
            answer=request["answer"],
        )
        verdict = as_verdict(self._function(request["response"], problem))
        return verdict.outcome, verdict.reward, verdict.reason[:_REASON_CHARACTERS]


def as_verdict(value: object) -> Verdict:
    """What a user's function returned, as a verdict.

    True and 1 are CORRECT. Any other number in [0, 1] is WRONG, with that reward.

    Raises:
        TypeError: it is no bool, number or Verdict.
        ValueError: it is a number outside [0, 1].
    """
    if isinstance(value, Verdict):
        return value
    if not isinstance(value, Real):
        raise TypeError(
            f"it returned {value!r:.80} ({type(value).__name__}); "
            "a bool, a number in [0, 1] or a Verdict is allowed"
        )
    reward = float(value)
    if not 0.0 <= reward <= 1.0:
        raise ValueError(f"it returned {reward}; a number has to lie in [0, 1]")
    outcome = Outcome.CORRECT if reward == 1.0 else Outcome.WRONG
    reason = "" if reward in (0.0, 1.0) else f"partial reward {reward:g}"
    return Verdict(outcome=outcome, reward=reward, reason=reason)


def make_function_grader(options: Mapping[str, Any]) -> FunctionGrader:
    """The worker's handler: the function of ``options["path"]``, found in the ``directories``."""
    directories = [Path(directory) for directory in options.get("directories", ())]
    return FunctionGrader(load_callable(options["path"], directories))
