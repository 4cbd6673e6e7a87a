"""Tests of one name in one text: all of them are run, not the last alone."""

import ast
from collections.abc import Sequence

_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def rename_twins(tree: ast.Module) -> None:
    """Give all but the last of the tests of one name names of their own."""
    _rename(tree.body)


def _rename(body: Sequence[ast.stmt]) -> None:
    found: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]] = {}
    waiting = list(body)
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, _NAMED) and _is_test(each):
            found.setdefault(each.name, []).append(each)
        if isinstance(each, ast.ClassDef):
            _rename(each.body)
        elif isinstance(each, _BLOCKS):
            inside = [getattr(each, field, []) for field in ("body", "orelse", "finalbody")]
            waiting[:0] = [statement for statements in inside for statement in statements]
    for name, twins in found.items():
        for number, twin in enumerate(twins[:-1], start=1):
            twin.name = f"{name}__{number}"


def _is_test(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    if isinstance(node, ast.ClassDef):
        methods = [each for each in node.body if isinstance(each, _NAMED)]
        return any(each.name.lower().startswith("test") for each in methods)
    return node.name.lower().startswith("test") or node.name == "check"
