"""What a statement of tests is: whether it checks something, may fail, or only takes a value."""

import ast
import re
from collections.abc import Sequence

from dph._processes.sandbox.left import Statement

_CHECKING = re.compile(r"_?assert\w*|fail|raises|warns|exit|_exit|quit")
_RAISES = re.compile(r"raises|assertRaises\w*")


def asserts(name: str) -> bool:
    """Whether a function is by its name one that checks."""
    return _CHECKING.fullmatch(name) is not None


def kind_of(statement: ast.stmt) -> Statement:
    """What a statement does with what its calls give (dph._processes.sandbox.left)."""
    if isinstance(statement, ast.Assign | ast.AnnAssign) or _asks_identity(statement):
        return Statement.TAKES
    if isinstance(statement, ast.If | ast.While):
        return Statement.CHECKS if checks_something(statement) else Statement.OTHER
    return Statement.OTHER if isinstance(statement, ast.For | ast.With) else Statement.CHECKS


def _asks_identity(statement: ast.stmt) -> bool:
    """``assert f(x) is x``, ``self.assertIs(f(x), x)``."""
    if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare):
        test = statement.test
        constants = [isinstance(each, ast.Constant) for each in (test.left, *test.comparators)]
        return isinstance(test.ops[0], ast.Is | ast.IsNot) and not any(constants)
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and last_name(value.func) in ("assertIs", "assertIsNot")


def checks_something(statement: ast.stmt) -> bool:
    """Whether a statement is a check: an assertion that may fail, a condition with a failure."""
    if isinstance(statement, ast.If | ast.While):
        return _has_failing_branch(statement) and not isinstance(statement.test, ast.Constant)
    return isinstance(statement, ast.Assert) and not _always_holds(statement.test)


def _has_failing_branch(statement: ast.If | ast.While) -> bool:
    """Whether a branch fails, those of ``elif`` included."""
    others = [each for each in statement.orelse if isinstance(each, ast.If)]
    fails = any(map(_fails_itself, [*statement.body, *statement.orelse]))
    return fails or any(map(_has_failing_branch, others))


def _fails_itself(statement: ast.stmt) -> bool:
    """Whether a statement fails without any condition: ``raise``, ``assert False``, ``exit()``."""
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and not statement.test.value
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return last_name(statement.value.func) in ("fail", "exit", "_exit", "quit")
    return isinstance(statement, ast.Raise)


def _always_holds(test: ast.expr) -> bool:
    """Whether an assertion holds whatever a program does: ``assert (f(2) == 3, "no")``."""
    if isinstance(test, ast.Tuple | ast.List | ast.Set):
        return bool(test.elts)
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.ListComp | ast.SetComp):
        return not any(each.ifs for each in test.generators)
    return isinstance(test, ast.GeneratorExp | ast.Lambda)


def is_idle(statement: ast.stmt) -> bool:
    """Whether it is ``assert True``, by which a test says that it came that far."""
    test = statement.test if isinstance(statement, ast.Assert) else None
    return isinstance(test, ast.Constant) and test.value is True


def one_by_one(statement: ast.stmt) -> list[ast.stmt]:
    """``assert a and b`` as two assertions: the second sees what the first did to arguments."""
    test = statement.test if isinstance(statement, ast.Assert) else None
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
        return [statement]
    message = statement.msg  # type: ignore[attr-defined]
    parts = [ast.Assert(test=part, msg=message) for part in test.values]
    return [ast.copy_location(part, statement) for part in parts]


def may_fail(statements: Sequence[ast.stmt]) -> bool:
    """Whether an assertion fails here: ``raise``, ``assert``, ``pytest.fail()``, ``exit()``."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    return any(
        isinstance(node, ast.Raise | ast.Assert)
        or (isinstance(node, ast.Call) and asserts(last_name(node.func)))
        for node in nodes
    )


def awaits_failure(statement: ast.With) -> bool:
    """Whether it is ``with pytest.raises(...)``, or unittest's."""
    calls = [item.context_expr for item in statement.items]
    names = [last_name(each.func) for each in calls if isinstance(each, ast.Call)]
    return any(_RAISES.fullmatch(name) for name in names)


def has_call(node: ast.AST) -> bool:
    """Whether something is called in it."""
    return any(isinstance(each, ast.Call | ast.Await) for each in ast.walk(node))


def last_name(function: ast.expr) -> str:
    """``b`` of the function ``a.b``."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
