"""A verifier as a reward function of TRL."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from dph.engines.trl.dataset import problem_of_columns
from dph.errors import DataError
from dph.model.sampler.graded import CUT_OFF
from dph.records import UNGRADED, Outcome, Verdict
from dph.tasks.verifiers.base import Verifier

RewardFunction = Callable[..., list[float | None]]


LogMetric = Callable[[str, float], None]
"""TRL's ``log_metric``: a number under a name, averaged over a step and all processes."""


def reward_function(
    verifier: Verifier,
    *,
    stop_token_ids: Collection[int] = (),
    observe: Callable[[LogMetric, Sequence[Verdict]], None] | None = None,
) -> RewardFunction:
    """Rewards of ``verifier`` for ``GRPOTrainer(reward_funcs=...)``, under the verifier's name.

    The data set needs the columns of ``problems_dataset``. A completion that could not be graded
    gets None, which TRL leaves out of its group's mean and gives no advantage: one whose grading
    broke off (CRASHED), and every completion of a problem whose gold answer cannot be graded
    (BAD_GOLD), also those that were graded before that was known.

    With ``stop_token_ids`` a completion that does not end in one of them was cut off: it gets 0
    without being graded, as in the package's own loop. Without them it is graded as it is.

    ``observe`` is told the verdict of every completion, with TRL's function for numbers to be
    logged. The caller closes the verifier.
    """

    def reward(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        problem_id: Sequence[str] | None = None,
        answer: Sequence[str] | None = None,
        completion_ids: Sequence[Sequence[int]] | None = None,
        log_metric: LogMetric = lambda _name, _value: None,
        **_: Any,
    ) -> list[float | None]:
        if problem_id is None or answer is None:
            missing = "problem_id" if problem_id is None else "answer"
            raise DataError(
                f"the data set has no column {missing!r}: {verifier.name} needs prompt, "
                "problem_id and answer (JSON); make it with dph.engines.trl.problems_dataset"
            )
        finished = [True] * len(completions)
        if stop_token_ids and completion_ids is not None:
            finished = [bool(ids) and ids[-1] in stop_token_ids for ids in completion_ids]
        chosen = [i for i, whole in enumerate(finished) if whole]
        graded = verifier.grade(
            [problem_of_columns(problem_id[i], prompts[i], answer[i]) for i in chosen],
            [_text(completions[i]) for i in chosen],
        )
        verdicts = dict(zip(chosen, graded, strict=True))
        if observe is not None:
            observe(log_metric, [verdicts.get(i, CUT_OFF) for i in range(len(completions))])
        bad = {problem_id[i] for i, v in verdicts.items() if v.outcome is Outcome.BAD_GOLD}
        return [
            None if problem_id[i] in bad else _reward(verdicts.get(i, CUT_OFF))
            for i in range(len(completions))
        ]

    reward.__name__ = verifier.name
    return reward


def _reward(verdict: Verdict) -> float | None:
    return None if verdict.outcome in UNGRADED else verdict.reward


def _text(completion: Any) -> str:
    """The answer of a completion: text, or messages whose last one is the answer."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"]
    if not isinstance(content, str):
        raise DataError(f"an answer must be text, got {content!r:.80}")
    return content
