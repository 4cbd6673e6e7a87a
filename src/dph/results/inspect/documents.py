"""The JSON documents that a log of Inspect is made of (its log format, version 2)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dph import __version__
from dph.recipe import recipe_digest
from dph.records import Outcome, Problem
from dph.tasks.verl.files import GROUND_TRUTH_FIELDS

VERSION = 2
SCORER = "verdict"
_CORRECT, _INCORRECT = "C", "I"
_LONGEST = 1_000
"""Characters of a prompt or gold answer in the list of samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """What is the same for all samples of a log.

    ``task`` is the set, ``when`` an ISO date with its zone, ``digest`` names the evaluation;
    ``metrics`` are the set's scores (fractions), ``ci95`` their intervals where there are any.
    """

    task: str
    run: str
    model: str
    when: str
    digest: str
    epochs: int
    sample_ids: tuple[str, ...]
    metrics: Mapping[str, float]
    ci95: Mapping[str, Any]
    generation: Mapping[str, Any]
    metadata: Mapping[str, Any]


def log_header(head: LogHead, *, scored: int, unscored: int) -> dict[str, Any]:
    """``header.json``: the log without its samples."""
    metrics = {
        name: {"name": name, "value": value, "params": {}} for name, value in head.metrics.items()
    }
    score = {
        "name": SCORER,
        "scorer": SCORER,
        "scored_samples": scored,
        "unscored_samples": unscored,
        "params": {},
        "metrics": metrics,
        "metadata": {"ci95": dict(head.ci95)},
    }
    total = scored + unscored
    return {
        "version": VERSION,
        "status": "success",
        "eval": log_spec(head),
        "plan": log_plan(),
        "results": {"total_samples": total, "completed_samples": total, "scores": [score]},
        "stats": {"started_at": head.when, "completed_at": head.when, "model_usage": {}},
    }


def log_plan() -> dict[str, Any]:
    """How answers were made: one generation each."""
    return {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}}


def log_spec(head: LogHead) -> dict[str, Any]:
    """What was evaluated; ids are made from the evaluation's digest, so they stay the same."""
    return {
        "eval_id": _id("eval", head),
        "run_id": _id("run", head),
        "task_id": _id("task", head),
        "created": head.when,
        "task": head.task,
        "task_version": 0,
        "task_attribs": {},
        "task_args": {},
        "dataset": {
            "name": head.task,
            "samples": len(head.sample_ids),
            "sample_ids": list(head.sample_ids),
            "shuffled": False,
        },
        "model": head.model,
        "model_generate_config": dict(head.generation),
        "model_args": {},
        "config": {"epochs": head.epochs},
        "packages": {"dph-rl": __version__},
        "scorers": [{"name": SCORER, "options": {}, "metrics": [], "metadata": {}}],
        "metadata": {"run": head.run, **head.metadata},
    }


def log_sample(
    head: LogHead, problem: Problem | None, row: Mapping[str, Any], epoch: int
) -> dict[str, Any]:
    """A sample: one answer to one problem. ``row`` is one of ``samples.parquet``.

    A problem that cannot be graded (BAD_GOLD) has no score: it says nothing about the model.
    """
    asked = _messages(problem)
    answer = {"role": "assistant", "content": row["text"], "source": "generate"}
    usage = {"input_tokens": 0, "output_tokens": row["tokens"], "total_tokens": row["tokens"]}
    return {
        "id": row["problem_id"],
        "epoch": epoch,
        "input": asked,
        "target": target_of(problem),
        "messages": [*asked, answer],
        "output": {
            "model": head.model,
            "choices": [
                {"message": answer, "stop_reason": "stop" if row["finished"] else "max_tokens"}
            ],
            "completion": row["text"],
            "usage": usage,
        },
        "scores": _scores(row),
        "metadata": {
            "outcome": row["outcome"],
            "reason": row["reason"],
            "style": row["style"],
            "reward": row["reward"],
            **({} if problem is None else dict(problem.answer)),
        },
        "uuid": _id(f"{row['problem_id']} {epoch}", head),
    }


def sample_summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the list of samples; texts are cut to 1,000 characters."""
    asked = [{**message, "content": message["content"][:_LONGEST]} for message in sample["input"]]
    return {
        "id": sample["id"],
        "epoch": sample["epoch"],
        "input": asked,
        "target": sample["target"][:_LONGEST],
        "metadata": {"outcome": sample["metadata"]["outcome"]},
        "scores": sample["scores"],
        "uuid": sample["uuid"],
        "completed": True,
        "message_count": len(sample["messages"]),
    }


def target_of(problem: Problem | None) -> str:
    """The gold answer as a text; all that a problem's answer holds where no field is known."""
    if problem is None:
        return ""
    for field in GROUND_TRUTH_FIELDS:
        found = problem.answer.get(field)
        if isinstance(found, str):
            return found
    return json.dumps(dict(problem.answer), ensure_ascii=False, sort_keys=True)


def is_scored(row: Mapping[str, Any]) -> bool:
    """Whether an answer's verdict is about the model."""
    return bool(row["outcome"] != Outcome.BAD_GOLD.value)


def _scores(row: Mapping[str, Any]) -> dict[str, Any]:
    if not is_scored(row):
        return {}
    right = row["outcome"] == Outcome.CORRECT.value
    score = {"value": _CORRECT if right else _INCORRECT, "answer": row["text"]}
    score["explanation"] = ": ".join(filter(None, (row["outcome"], row["reason"])))
    return {SCORER: score}


def _messages(problem: Problem | None) -> list[dict[str, Any]]:
    if problem is None:
        return []
    if isinstance(problem.prompt, str):
        return [{"role": "user", "content": problem.prompt, "source": "input"}]
    return [{**message, "source": "input"} for message in problem.prompt]


def _id(what: str, head: LogHead) -> str:
    return recipe_digest(what, head.digest, head.task, head.epochs)
