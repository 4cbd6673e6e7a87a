"""HumanEval (arXiv:2107.03374), and files of its shape.

A row has ``task_id``, ``prompt`` (imports, perhaps other functions, a signature and its
documentation), ``entry_point``, ``test`` (defines ``check(candidate)``) and
``canonical_solution`` (the body).
"""

from collections.abc import Mapping
from typing import Any

from dph.records import Problem
from dph.tasks.code.row import INSTRUCTION, CodeProblem, text_field


def humaneval_problem(row: Mapping[str, Any], place: str) -> CodeProblem:
    """The problem of a row: its prompt is the task's setup and may stand before an answer.

    Raises:
        DataError: a field is missing or no text.
    """
    beginning = text_field(row, "prompt", place)
    entry_point = text_field(row, "entry_point", place)
    answer = {
        "tests": [f"{text_field(row, 'test', place)}\n\ncheck({entry_point})\n"],
        "entry_point": entry_point,
        "setup": beginning,
        "prefix": beginning,
    }
    prompt = f"Complete this function:\n\n```python\n{beginning.rstrip()}\n```\n\n{INSTRUCTION}"
    solution = row.get("canonical_solution")
    return CodeProblem(
        problem=Problem(problem_id=text_field(row, "task_id", place), prompt=prompt, answer=answer),
        solution=solution if isinstance(solution, str) and solution.strip() else None,
    )
