"""The reward manager: a verifier of the package in verl's reward loop."""

import json
import logging
import threading
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from dph.engines.verl.prompts import problem_of_fields, stop_ids
from dph.engines.verl.settings import REFUSED_VERIFIERS, LossSettings, shared_settings
from dph.errors import DataError, SettingsError
from dph.loss.objectives import overlong_penalty
from dph.model.prompts import completion_text
from dph.model.sampler.graded import CUT_OFF
from dph.records import UNGRADED, Outcome, Problem, Verdict
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.base import Verifier

# A verifier as verl's custom reward function, for runs that use no other part of the package.
#
# reward.custom_reward_function.path=pkg://dph.engines.verl.reward_manager
# +reward.custom_reward_function.reward_kwargs.verifier=sql
# +reward.custom_reward_function.reward_kwargs.databases=databases
#
# The two commands of this package use ``DPHRewardManager`` instead, which also knows whether an
# answer was cut off.

_one_at_a_time = threading.Lock()
"""verl calls from several threads; a verifier is made once and takes one of them at a time."""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    verifier: str = "math",
    databases: str | None = None,
    sql_rule: str = "bird",
    workers: int = 1,
    timeout: float = 5.0,
    ground_truth_field: str = "answer",
    **_: Any,
) -> dict[str, Any]:
    """The reward of an answer, with the outcome and the reason of its verdict.

    Rows of ``dph convert`` bring everything that the verifier needs; of others it sees the ground
    truth, as ``ground_truth_field``, and the fields of ``extra_info``. Each process keeps its
    verifier, with ``workers`` processes.

    Raises:
        SettingsError: there is no such verifier, or it cannot be used with verl.
        VerifierError: the verifier itself broke.
        DataError: ``extra_info.answer_json`` is not JSON.
    """
    extra = dict(extra_info or {})
    problem = Problem(
        problem_id=str(extra.get("problem_id") or f"{data_source}/{extra.get('index')}"),
        prompt="",
        answer=_answer(ground_truth, extra, ground_truth_field),
    )
    with _one_at_a_time:
        grader = _verifier(verifier, databases, sql_rule, workers, timeout)
        (verdict,) = grader.grade([problem], [solution_str])
    return told_verdict(verdict, score=verdict.reward)


def told_verdict(verdict: Verdict, *, score: float) -> dict[str, Any]:
    """A verdict as verl's rows keep it; training learns from ``score``."""
    return {
        "score": score,
        "acc": verdict.reward,
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
    }


@lru_cache
def _verifier(
    name: str, databases: str | None, sql_rule: str, workers: int, timeout: float
) -> Verifier:
    if name in REFUSED_VERIFIERS:
        raise SettingsError(REFUSED_VERIFIERS[name])
    return make_verifier(
        name,
        databases=Path(databases) if databases else None,
        sql_rule=sql_rule,
        workers=workers,
        timeout=timeout,
    )


def _answer(ground_truth: Any, extra: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    text = extra.get("answer_json")
    if text is None:
        return {**extra, field: ground_truth}
    try:
        answer: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise DataError(f"extra_info.answer_json is not JSON: {error}") from error
    return answer


logger = logging.getLogger(__name__)


class DPHRewardManager(RewardManagerBase):  # type: ignore[misc]
    """Grades with ``dph.verifier``; ``reward_extra_info`` holds the whole verdict.

    As in the package's own loop, an answer that does not end in a stop token was cut off: it gets
    CUT_OFF and reward 0 without being graded. ``acc`` is the verifier's reward, ``score`` that
    plus the overlong penalty. What could not be graded has the outcome BAD_GOLD or CRASHED and
    the score 0, which means nothing: the trainer leaves it out (``advantages``). The first of
    each kind is logged.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        self._settings: LossSettings = shared_settings(config)
        self._verifier: Verifier = self._settings.make_verifier()
        self._stop_ids = stop_ids(config, tokenizer)
        self._limit = int(config.actor_rollout_ref.rollout.response_length)
        self._seen: Counter[Outcome] = Counter()
        self._one_at_a_time = threading.Lock()

    async def run_single(self, data: Any) -> dict[str, Any]:
        """The score of the last answer of ``data``."""
        item = data[-1:][0]
        answer = item.batch["responses"]
        length = int(item.batch["attention_mask"][-answer.shape[-1] :].sum())
        ids = answer[:length].tolist()
        problem = problem_of_fields(item.non_tensor_batch, self._settings)
        verdict = CUT_OFF
        if ids and ids[-1] in self._stop_ids:
            # Off the event loop: grading blocks, and other answers wait for their turn.
            verdict = await self.loop.run_in_executor(None, self._grade, problem, ids)
        score = verdict.reward + self._penalty(len(ids))
        return {"reward_score": score, "reward_extra_info": told_verdict(verdict, score=score)}

    def _grade(self, problem: Problem, ids: list[int]) -> Verdict:
        text = completion_text(self.tokenizer, ids)
        # The threads of the event loop come here side by side, and a verifier takes one at a time.
        with self._one_at_a_time:
            (verdict,) = self._verifier.grade([problem], [text])
            if verdict.outcome in UNGRADED:  # not due to the answer: the first of each kind
                self._seen[verdict.outcome] += 1
                if self._seen[verdict.outcome] == 1:
                    what = (verdict.outcome.value, problem.problem_id, verdict.reason)
                    logger.warning("%s: problem %r: %s (told once)", *what)
        return verdict

    def _penalty(self, length: int) -> float:
        limit, penalty = self._limit, self._settings.objective.overlong_penalty
        buffer = round(self._settings.objective.overlong_buffer * limit)
        if not buffer:
            return 0.0
        lengths = torch.tensor([length])
        return float(overlong_penalty(lengths, max_tokens=limit, buffer=buffer, penalty=penalty))
