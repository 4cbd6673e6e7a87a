"""A task's tests, changed so that what they check is counted.

A test that checks nothing passes whatever a program does: a function that nobody calls, a comment,
a comparison without ``assert``. So every place that checks says when it is reached, and a test in
which none was is no test. Also, a statement sees the arguments of its calls as they were before it:
in ``assert f(x) == sorted(x)`` a program that empties ``x`` does not change what is expected.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

REACHED, CHECKED, SETTLE = "__dph_reached__", "__dph_checked__", "__dph_settle__"
"""Names that the changed tests call: a check is reached, a call is one, a statement begins."""
_CHECKING = re.compile(r"_?assert\w*|fail|raises|warns|exit|_exit|quit")
_SETUP = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SETUP_LINES = (*_SETUP, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.With, ast.Try)
SOLUTION_MODULES = frozenset({"solution", "solutions", "program", "submission", "answer"})
"""Modules that tests import the program from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A text of tests, compiled.

    Attributes:
        checks: how many places in it check something.
        is_setup: it only defines and imports: other texts use what it brings.
        truths: names of functions whose result alone decides an assertion.
        is_asynchronous: it waits for coroutines itself.
    """

    code: CodeType
    checks: int
    is_setup: bool
    truths: frozenset[str]
    is_asynchronous: bool


def checked(text: str, name: str) -> Checked:
    """Compile a text of tests; ``name`` is its file's in tracebacks.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError, OverflowError: as ``compile``.
    """
    tree = ast.parse(text, name)
    _rename_twins(tree)
    counting = _Counting()
    tree = ast.fix_missing_locations(counting.visit(tree))
    body = [each for each in tree.body if not _is_docstring(each) and not _is_settle(each)]
    return Checked(
        code=compile(tree, name, "exec"),
        checks=counting.checks,
        is_setup=bool(body) and all(isinstance(each, _SETUP_LINES) for each in body),
        truths=frozenset(counting.truths),
        is_asynchronous=any(map(_is_asynchronous, ast.walk(tree))),
    )


class _Counting(ast.NodeTransformer):
    """Adds the calls; the lines of the tests stay theirs."""

    def __init__(self) -> None:
        self.checks = 0
        self.truths: set[str] = set()

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and statements:
                setattr(node, field, list(self._statements(statements)))
        for handler in getattr(node, "handlers", ()):
            handler.body = list(self._statements(handler.body))
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody", "handlers") and isinstance(value, list):
                continue
            if isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list):
                value[:] = [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = _last_name(node.func)
        if name and _CHECKING.fullmatch(name):
            self.checks += 1
            called = ast.Call(ast.Name(CHECKED, ast.Load()), [node.func], [])
            node.func = ast.copy_location(called, node.func)
        return node

    def _statements(self, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in statements:
            if _is_docstring(statement) or _is_future(statement):
                yield statement
                continue
            if isinstance(statement, ast.ImportFrom) and _is_star_of_solution(statement):
                continue  # its names are looked up where they are used
            for each in _one_by_one(statement):
                yield _called(SETTLE, each)
                if self._checks(each):
                    self.checks += 1
                    yield _called(REACHED, each)
                self._note_truth(each)
                if isinstance(each, ast.Try) and _may_fail([*each.body, *each.orelse]):
                    for handler in each.handlers:  # what has to be raised was
                        self.checks += 1
                        handler.body.insert(0, _called(REACHED, handler))
                yield self.visit(each)

    def _checks(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.If):
            return _may_fail([*statement.body, *statement.orelse])
        return isinstance(statement, ast.Assert)

    def _note_truth(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assert | ast.If):
            test = statement.test
            while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                test = test.operand
            if isinstance(test, ast.Call) and isinstance(test.func, ast.Name):
                self.truths.add(test.func.id)


def _one_by_one(statement: ast.stmt) -> list[ast.stmt]:
    """``assert a and b`` as two assertions: the second sees what the first did to arguments."""
    test = statement.test if isinstance(statement, ast.Assert) else None
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
        return [statement]
    message = statement.msg  # type: ignore[attr-defined]
    parts = [ast.Assert(test=part, msg=message) for part in test.values]
    return [ast.copy_location(part, statement) for part in parts]


def _may_fail(statements: Sequence[ast.stmt]) -> bool:
    """Whether an assertion fails here: ``raise``, ``assert``, ``pytest.fail()``, ``exit()``."""
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Raise | ast.Assert):
                return True
            if isinstance(node, ast.Call):
                name = _last_name(node.func)
                if name and _CHECKING.fullmatch(name):
                    return True
    return False


def _rename_twins(tree: ast.Module) -> None:
    """Give two tests of one name names of their own: a later one does not replace the first."""
    scopes = [tree.body, *(each.body for each in tree.body if isinstance(each, ast.ClassDef))]
    for body in scopes:
        seen: dict[str, int] = {}
        for each in body:
            if isinstance(each, _SETUP[2:]) and each.name.lower().startswith("test"):
                name = each.name
                seen[name] = seen.get(name, 0) + 1
                if seen[name] > 1:
                    each.name = f"{name}__{seen[name]}"


def _called(name: str, where: ast.AST) -> ast.stmt:
    call = ast.Expr(ast.Call(ast.Name(name, ast.Load()), [], []))
    return ast.copy_location(call, where) if hasattr(where, "lineno") else call


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_asynchronous(node: ast.AST) -> bool:
    asyncio = isinstance(node, ast.Name) and node.id == "asyncio"
    return asyncio or isinstance(node, ast.AsyncFunctionDef | ast.Await)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_settle(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return False
    return value.func.id in (SETTLE, REACHED)


def _is_star_of_solution(statement: ast.ImportFrom) -> bool:
    return statement.module in SOLUTION_MODULES and statement.names[0].name == "*"
