"""Handlers of exceptions that let a failed assertion pass, with a message at most."""

import ast

_SAYING = frozenset(
    {"print", "print_exc", "print_exception", "write", "log", "debug", "info", "warning", "error"}
    | {"exception", "critical"}
)


def swallows(handler: ast.ExceptHandler) -> bool:
    """Whether nothing comes of an exception: no flag, no count, no value, no other check."""
    return all(map(_is_nothing, handler.body))


def swallows_all(statement: ast.Try) -> bool:
    """Whether assertions stand under a handler of every exception, by which none fails.

    Where the body says itself what fails (``assert False``, ``raise``), the exception is wanted.
    """
    asserted = [each for each in statement.body if isinstance(each, ast.Assert)]
    wanted = any(isinstance(each.test, ast.Constant) for each in asserted)
    other = any(isinstance(each, ast.Raise) for each in ast.walk(statement))
    everything = any(map(_is_for_everything, statement.handlers))
    return bool(asserted) and everything and not wanted and not other


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


def _is_for_everything(handler: ast.ExceptHandler) -> bool:
    kind = handler.type
    return kind is None or getattr(kind, "id", "") in ("Exception", "BaseException")
