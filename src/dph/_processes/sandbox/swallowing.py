"""Handlers of exceptions that let a failed assertion pass, with a message at most."""

import ast

_SAYING = frozenset(
    {"print", "print_exc", "print_exception", "write", "log", "debug", "info", "warning", "error"}
    | {"exception", "critical"}
)
_OF_ASSERTIONS = frozenset({"AssertionError", "Exception", "BaseException"})


def swallows(handler: ast.ExceptHandler) -> bool:
    """Whether assertions fail here and nothing comes of it: no flag, no count, no other check."""
    return _is_for_assertions(handler.type) and all(map(_is_nothing, handler.body))


def _is_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return statement.value is None
    if not isinstance(statement, ast.Expr):
        return isinstance(statement, ast.Pass | ast.Continue | ast.Break)
    value = statement.value
    if isinstance(value, ast.Call):
        function = value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return name in _SAYING
    return isinstance(value, ast.Constant)


def _is_for_assertions(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(map(_is_for_assertions, kind.elts))
    return kind is None or getattr(kind, "id", "") in _OF_ASSERTIONS
