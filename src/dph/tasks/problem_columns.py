"""A problem as columns of a table: prompt and answer as JSON, so that chats and nesting survive."""

import json
from collections.abc import Mapping
from typing import Any

from dph.records import Problem


def problem_columns(problem: Problem) -> dict[str, str]:
    """``problem_id``, and ``prompt`` and ``answer`` as JSON text.

    >>> problem_columns(Problem(problem_id="q", prompt="1 + 1?", answer={"answer": "2"}))
    {'problem_id': 'q', 'prompt': '"1 + 1?"', 'answer': '{"answer": "2"}'}
    """
    return {
        "problem_id": problem.problem_id,
        "prompt": _json(problem.prompt),
        "answer": _json(dict(problem.answer)),
    }


def problem_of_columns(row: Mapping[str, Any]) -> Problem:
    """The problem of a row with the columns of ``problem_columns``."""
    prompt = json.loads(row["prompt"])
    return Problem(
        problem_id=row["problem_id"],
        prompt=prompt if isinstance(prompt, str) else tuple(prompt),
        answer=json.loads(row["answer"]),
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
