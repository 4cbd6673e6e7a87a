"""MBPP (arXiv:2108.07732), both of its files, and files of their shape.

A row has ``task_id``, ``text`` (``prompt`` in the sanitized file), ``code``, ``test_list``, and may
have ``test_setup_code`` or ``test_imports``. ``challenge_test_list`` counts like the others.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from dph.errors import DataError
from dph.records import Problem
from dph.tasks.code.row import INSTRUCTION, CodeProblem, text_field, texts_field

_SHOWN = 3
"""Tests that the prompt shows, as the paper does; without them the function has no name."""


def mbpp_problem(row: Mapping[str, Any], place: str) -> CodeProblem:
    """The problem of a row; the function is the one that its first test calls.

    Raises:
        DataError: a field is missing or malformed, or no test calls a function of the solution.
    """
    number = row.get("task_id")
    if not isinstance(number, int | str) or isinstance(number, bool):
        raise DataError(f"{place}: 'task_id' has to be a number or a text, got {number!r:.80}")
    tests = texts_field(row, "test_list", place)
    code = text_field(row, "code", place)
    before = row.get("test_setup_code") or ""
    task = text_field(row, "text" if row.get("text") is not None else "prompt", place)
    answer = {
        "tests": [
            *([text_field(row, "test_setup_code", place)] if before else []),
            *tests,
            *texts_field(row, "challenge_test_list", place),
        ],
        "entry_point": _called(tests, code, place),
        "setup": "\n".join(texts_field(row, "test_imports", place)),
    }
    shown = "\n".join(tests[:_SHOWN])
    prompt = (
        f"{task.strip()}\nIt has to pass these tests:\n\n```python\n{shown}\n```\n\n{INSTRUCTION}"
    )
    return CodeProblem(
        problem=Problem(problem_id=f"mbpp-{number}", prompt=prompt, answer=answer), solution=code
    )


def _called(tests: list[str], code: str, place: str) -> str:
    """The function of ``code`` that the tests call first."""
    try:
        defined = {name for node in ast.parse(code).body for name in _names(node)}
        trees = [ast.parse(test) for test in tests]
    except SyntaxError as error:
        raise DataError(f"{place}: its code or its tests are no Python: {error}") from error
    for tree in trees:
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for function in calls:
            if isinstance(function, ast.Name) and function.id in defined:
                return function.id
    raise DataError(f"{place}: no test calls what the code defines, {sorted(defined)}")


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
