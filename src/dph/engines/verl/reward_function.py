"""A verifier as verl's custom reward function, for runs that use nothing else of the package.

    reward.custom_reward_function.path=pkg://dph.integrations.verl.reward_function
    +reward.custom_reward_function.reward_kwargs.verifier=sql
    +reward.custom_reward_function.reward_kwargs.databases=databases

The two commands of this package use ``DPHRewardManager`` instead, which also knows whether an
answer was cut off.
"""

import json
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from dph.engines.verl.settings import REFUSED_VERIFIERS
from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.base import Verifier

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
    verifier, with ``workers`` processes of its own.

    Raises:
        SettingsError: there is no such verifier, or it cannot be used beside verl.
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
    return {
        "score": verdict.reward,
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
