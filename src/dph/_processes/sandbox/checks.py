"""A text of tests as a program that counts what it checks.

A test that checks nothing passes whatever a program does: a function that nobody calls, a loop over
nothing. So every check reports that it was reached, and a text that reached none is no test.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType

REACHED = "__dph_reached__"
"""Name that a compiled text calls: a check is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A text of tests, compiled.

    Attributes:
        checks: how many places in it check something.
        is_setup: it only defines and imports: other texts use what it brings.
        may_skip: a check of it stands in a loop or under a condition.
        functions: the tests that it defines, and ``check``, in order.
    """

    code: CodeType
    checks: int
    is_setup: bool
    may_skip: bool
    functions: tuple[str, ...]


def checked(tree: ast.Module, name: str) -> Checked:
    """Compile a text, whose forms are known (dph._processes.sandbox.forms).

    ``name`` is its file's in tracebacks.
    """
    inside = [n for n in walk(tree) if isinstance(n, ast.For | ast.While | ast.If)]
    may_skip = any(is_check(each) for node in inside for each in walk(node) if each is not node)
    is_setup = all(isinstance(each, _SETUP) or is_docstring(each) for each in tree.body)
    functions = [e.name for e in tree.body if isinstance(e, ast.FunctionDef) and is_test(e)]
    counting = _Counting()
    tree = counting.visit(tree)
    return Checked(
        code=compile(tree, name, "exec", optimize=0),
        checks=counting.checks,
        is_setup=is_setup,
        may_skip=may_skip,
        functions=tuple(functions),
    )


_SETUP = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Assign, ast.AnnAssign)


def walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but the parts of data: lists of numbers may be very long."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not is_data(node):
            waiting += ast.iter_child_nodes(node)


def is_data(node: ast.AST) -> bool:
    """True if a node is a constant, or a container that holds only constants."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return all(map(is_data, node.elts))
    if isinstance(node, ast.Dict):
        return all(each and is_data(each) for each in (*node.keys, *node.values))
    return isinstance(node, ast.Constant | ast.expr_context)


def assigned(node: ast.AST) -> tuple[list[ast.expr], ast.expr | None]:
    """The targets of an assignment, and its value; none where it is no assignment."""
    if isinstance(node, ast.Assign):
        return node.targets, node.value
    if isinstance(node, ast.AnnAssign | ast.NamedExpr):
        return [node.target], node.value
    return [], None


def is_check(node: ast.AST) -> bool:
    """True if a statement is an assertion, or fails if a condition is true."""
    if isinstance(node, ast.If):
        branches = [*node.body, *node.orelse]
        return not isinstance(node.test, ast.Constant) and any(map(_may_fail, branches))
    if isinstance(node, ast.Expr):
        function = node.value.func if isinstance(node.value, ast.Call) else None
        of_numpy = isinstance(function, ast.Attribute) and function.attr.startswith("assert_")
        return of_numpy or (function is not None and last_name(function) == "raises")
    if isinstance(node, ast.Assert):
        return not isinstance(node.test, ast.Constant)
    return isinstance(node, ast.With)


def _may_fail(branch: ast.stmt) -> bool:
    return fails(branch) or (isinstance(branch, ast.If) and is_check(branch))


def fails(statement: ast.stmt) -> bool:
    """True if a statement always fails: ``raise``, ``assert False``, ``fail()``."""
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and not statement.test.value
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return last_name(statement.value.func) == "fail"
    return isinstance(statement, ast.Raise)


def is_test(node: ast.AST) -> bool:
    """True if a statement defines a test, or HumanEval's ``check``."""
    name = node.name if isinstance(node, ast.FunctionDef) else ""
    return name.lower().startswith("test") or name == "check"


def is_docstring(statement: ast.stmt) -> bool:
    """True if a statement is a text alone."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def last_name(function: ast.expr) -> str:
    """``b`` of the function ``a.b``."""
    return str(getattr(function, "attr", getattr(function, "id", "")))


class _Counting(ast.NodeTransformer):
    """Adds the calls; the lines of the tests stay theirs."""

    def __init__(self) -> None:
        self.checks = 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                setattr(node, field, list(self._statements(statements)))
        return node

    def _statements(self, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for each in statements:
            if isinstance(each, ast.FunctionDef) and is_test(each):
                self.checks += any(isinstance(n, ast.Return) and n.value for n in walk(each))
            if is_check(each):
                self.checks += 1
                told = ast.Expr(ast.Call(ast.Name(REACHED, ast.Load()), [], []))
                yield ast.fix_missing_locations(ast.copy_location(told, each))
            self.generic_visit(each)
            yield each
