"""Which functions say by their result alone whether an assertion of the tests holds."""

import ast
from collections.abc import Iterator


def deciding_names(tree: ast.AST) -> frozenset[str]:
    """Names of functions: of ``same`` in ``assert same(f(2), 3)``, also by way of a variable."""
    assigned: dict[str, list[ast.expr]] = {}
    tests: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.Assert | ast.If | ast.While):
            tests.append(node.test)
        elif isinstance(node, ast.Call) and _method(node) in ("assertTrue", "assertFalse"):
            tests += node.args[:1]
    found: set[str] = set()
    seen: set[str] = set()
    for test in tests:
        found.update(_deciding(test, assigned, seen))
    return frozenset(found)


def _deciding(test: ast.expr, assigned: dict[str, list[ast.expr]], seen: set[str]) -> Iterator[str]:
    parts: list[ast.expr] = []
    if isinstance(test, ast.UnaryOp):
        parts = [test.operand]
    elif isinstance(test, ast.BoolOp):
        parts = test.values
    elif isinstance(test, ast.Compare) and any(map(_is_truth, [test.left, *test.comparators])):
        parts = [test.left, *test.comparators]
    elif isinstance(test, ast.Await | ast.NamedExpr):
        parts = [test.value]
    elif isinstance(test, ast.GeneratorExp | ast.ListComp):
        parts = [test.elt]
    elif isinstance(test, ast.Name) and test.id not in seen:
        seen.add(test.id)
        parts = assigned.get(test.id, [])
    elif isinstance(test, ast.Call) and isinstance(test.func, ast.Name):
        yield test.func.id
        if test.func.id in ("all", "any", "bool", "map", "list"):
            yield from (each.id for each in test.args if isinstance(each, ast.Name))
            parts = test.args
    for part in parts:
        yield from _deciding(part, assigned, seen)


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _method(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""
