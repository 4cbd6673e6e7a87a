"""Problems as a data set of TRL, and back."""

import json
from collections.abc import Sequence
from typing import Any

from datasets import Dataset

from dph.errors import DataError
from dph.model.prompts import chat_messages
from dph.records import Problem


def problems_dataset(
    problems: Sequence[Problem], *, chat: bool = False, system_prompt: str = ""
) -> Dataset:
    """A data set with the columns ``prompt``, ``problem_id`` and ``answer``.

    ``answer`` is one JSON text a problem: columns of Arrow have one type, answers need not.
    ``chat`` and ``system_prompt`` make messages of a text as a recipe's ``[data]`` does, so that
    TRL's prompt has the same tokens.

    Raises:
        DataError: there are no problems, some prompts are text and some are messages, or an
            answer is not JSON.
    """
    if not problems:
        raise DataError("a data set needs at least one problem")
    prompts = [_prompt(problem, chat, system_prompt) for problem in problems]
    if len({isinstance(prompt, str) for prompt in prompts}) > 1:
        raise DataError("some prompts are text and some are messages: set chat=True")
    return Dataset.from_dict(
        {
            "prompt": prompts,
            "problem_id": [problem.problem_id for problem in problems],
            "answer": [_json(problem) for problem in problems],
        }
    )


def problem_of_columns(problem_id: str, prompt: Any, answer: str) -> Problem:
    """The problem of a row; what a verifier reads of it is the answer.

    Raises:
        DataError: ``answer`` is not a JSON object.
    """
    try:
        fields = json.loads(answer)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"problem {problem_id!r}: the column answer is not JSON: {answer!r:.80}"
        ) from error
    if not isinstance(fields, dict):
        raise DataError(f"problem {problem_id!r}: answer is no JSON object, got {fields!r:.80}")
    text = prompt if isinstance(prompt, str) else tuple(prompt)
    return Problem(problem_id=problem_id, prompt=text, answer=fields)


def _prompt(problem: Problem, chat: bool, system_prompt: str) -> str | list[dict[str, str]]:
    if isinstance(problem.prompt, str) and not chat:
        if system_prompt:
            raise DataError("system_prompt needs chat=True: a plain prompt is taken as it is")
        return problem.prompt
    return chat_messages(problem.prompt, system_prompt=system_prompt)


def _json(problem: Problem) -> str:
    try:
        return json.dumps(dict(problem.answer), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"problem {problem.problem_id!r} is not JSON: {error}") from error
