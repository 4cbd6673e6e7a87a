"""The verifier ``reasoning_gym``: the package's own scorers, in processes that can be killed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from dph._base.closing import Closing
from dph._processes.workers.pool import GOLD_STAGE, WorkerPool, verdict_of
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers.gym.entries import MEMORY_BYTES, gym_answer, parse_entry

_NO_ANSWER = Verdict(outcome=Outcome.NO_ANSWER, reward=0.0, reason="the response is empty")


class GymVerifier(Closing):
    """Scores the answers to procedurally made tasks as reasoning-gym does.

    The reward is the scorer's, in [0, 1]; an answer is CORRECT from ``threshold`` on. Answers that
    a scorer would evaluate as Python are read as literals or expressions. A problem has the fields
    of ``dph.tasks.verifiers.gym.entries``; one whose question the installed version of the package
    asks otherwise is BAD_GOLD.

    Args:
        threshold: the least score of a right answer, above 0 and at most 1.
        workers: number of worker processes.
        timeout: seconds for one answer.

    Raises:
        SettingsError: reasoning-gym is missing, or a number is out of range.
    """

    name = "reasoning_gym"

    def __init__(self, *, threshold: float = 1.0, workers: int = 1, timeout: float = 5.0) -> None:
        require_gym(f"the {self.name} verifier")
        if not 0 < threshold <= 1:
            raise SettingsError(
                f"the threshold of {self.name} must be above 0 and at most 1, got {threshold}"
            )
        self.version = f"1 (reasoning-gym {version('reasoning-gym')})"
        self.settings: Mapping[str, Any] = {
            "threshold": float(threshold),
            "timeout": float(timeout),
        }
        self._pool = WorkerPool(
            handler="dph.tasks.verifiers.gym.handler:make_gym_grader",
            options={"threshold": float(threshold), "memory_bytes": MEMORY_BYTES},
            workers=workers,
            timeout=timeout,
            shared_stage=GOLD_STAGE,
        )

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            DataError: a problem does not name its entry or its question.
            VerifierError: a worker failed.
        """
        verdicts = [_NO_ANSWER] * len(problems)
        requests: list[dict[str, Any]] = []
        places: list[int] = []
        for place, (problem, response) in enumerate(zip(problems, responses, strict=True)):
            if (answer := gym_answer(response)) is not None:
                requests.append(_request(problem, answer))
                places.append(place)
        keys = [json.dumps(request["entry"], sort_keys=True) for request in requests]
        for place, reply in zip(places, self._pool.run(requests, keys=keys), strict=True):
            subject = f"problem {problems[place].problem_id}"
            verdicts[place] = verdict_of(reply, verifier=self.name, subject=subject)
        return verdicts

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._pool.close()


def require_gym(who: str) -> None:
    """Refuse to continue without the package.

    Raises:
        SettingsError: says how to install it.
    """
    if find_spec("reasoning_gym") is None:
        raise SettingsError(f"{who} needs the package reasoning-gym: pip install 'dph-rl[gym]'")


def _request(problem: Problem, answer: str) -> dict[str, Any]:
    entry = parse_entry(problem.answer, f"problem {problem.problem_id!r}")
    question = problem.answer.get("gym_question")
    if not isinstance(question, str):
        raise DataError(
            f"the reasoning_gym verifier needs gym_question (str) in problem "
            f"{problem.problem_id!r}, got {question!r:.80}"
        )
    return {"entry": asdict(entry), "question": question, "answer": answer}
