"""A task's tests, changed so that what they check is counted.

A test that checks nothing passes whatever a program does: a function that nobody calls, a comment,
a comparison without ``assert``. So every place that checks reports that it was reached, and a test
that reached none does not count as a test. A failed assertion is reported too: it may fail in a
thread, or where the tests print the failure and continue. And every statement reports its start,
because it sees the arguments of earlier calls as they were left (dph._processes.sandbox.left).
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, MappingProxyType
from typing import Any

from dph._processes.sandbox.left import Statement

# Kinds of statements of tests: some check something, some may fail, some only take a value.

_CHECKING = re.compile(r"_?assert\w*|fail|raises|warns|exit|_exit|quit")
_RAISES = re.compile(r"raises|assertRaises\w*")


def asserts(name: str) -> bool:
    """Whether a function is by its name one that checks."""
    return _CHECKING.fullmatch(name) is not None


def kind_of(statement: ast.stmt) -> Statement:
    """Use that a statement makes of its calls' results (dph._processes.sandbox.left)."""
    if isinstance(statement, ast.Assign | ast.AnnAssign) or _asks_identity(statement):
        return Statement.TAKES
    if isinstance(statement, ast.If | ast.While | ast.Match):
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
    if isinstance(statement, ast.Match):
        return any(_fails_itself(each) for case in statement.cases for each in case.body)
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
    """Whether it is ``assert True``, the mark of a test that was reached."""
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


# Functions whose result alone decides whether an assertion of the tests holds.


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


# Handlers of exceptions that let a failed assertion pass, with a message at most.

_SAYING = frozenset(
    {"print", "print_exc", "print_exception", "write", "log", "debug", "info", "warning", "error"}
    | {"exception", "critical"}
)
_OF_ASSERTIONS = frozenset({"AssertionError", "Exception", "BaseException"})


def swallows(handler: ast.ExceptHandler, read: frozenset[str]) -> bool:
    """Whether a handler hides a failed assertion: it sets no flag, counts nothing, checks nothing.

    A flag that only a message uses does not count; ``read``: the names that are used elsewhere.
    """
    nothing = all(_is_nothing(each, read) for each in handler.body)
    return catches_assertions(handler.type) and nothing


def names_read(tree: ast.AST) -> frozenset[str]:
    """Names whose values are used: all but those in messages, and those of lists that grow."""
    return frozenset(_read(tree))


def _read(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and last_name(node.func) in _SAYING:
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    inside = ast.iter_child_nodes(node)
    if isinstance(node, ast.Expr) and _grown(node):
        inside = iter(node.value.args)  # type: ignore[attr-defined]
    for each in inside:
        yield from _read(each)


def _grown(statement: ast.Expr) -> str:
    """``failed`` of ``failed.append(1)``, else nothing."""
    function = statement.value.func if isinstance(statement.value, ast.Call) else None
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.value.id if function.attr in ("append", "add") else ""
    return ""


def awaits_exception(statement: ast.Try) -> bool:
    """Whether it fails if nothing is raised: ``assert False`` after a call."""
    return any(map(_fails_itself, [*statement.body, *statement.orelse]))


def _is_nothing(statement: ast.stmt, read: frozenset[str]) -> bool:
    if isinstance(statement, ast.Return):
        return statement.value is None
    if isinstance(statement, ast.Assign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return all(isinstance(each, ast.Name) and each.id not in read for each in targets)
    if isinstance(statement, ast.Expr) and (name := _grown(statement)):
        return name not in read
    if not isinstance(statement, ast.Expr):
        return isinstance(statement, ast.Pass | ast.Continue | ast.Break)
    value = statement.value
    if isinstance(value, ast.Call):
        function = value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return name in _SAYING
    return isinstance(value, ast.Constant)


def catches_assertions(kind: ast.expr | None) -> bool:
    """Whether a handler of this class of exceptions catches those of assertions."""
    if isinstance(kind, ast.Tuple):
        return any(map(catches_assertions, kind.elts))
    return kind is None or getattr(kind, "id", "") in _OF_ASSERTIONS


# Tests of one name in one text: all of them are run, not the last alone.

_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def rename_twins(tree: ast.Module) -> None:
    """Rename all but the last of several tests with the same name."""
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


BEGINS, AFTER, SEEN = "__dph_begins__", "__dph_after__", "__dph_seen__"
"""Names that changed tests call: a statement begins, a call is over, an argument after one."""
REACHED, CHECKED, LOOPS = "__dph_reached__", "__dph_checked__", "__dph_loops__"
"""A check is reached, a call is one, a loop around checks begins."""
HELD, FAILED, HANDLED = "__dph_held__", "__dph_failed__", "__dph_handled__"
"""An assertion held, one fails, an exception is handled."""
NOTHING: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **dict.fromkeys((BEGINS, REACHED, LOOPS, HELD, HANDLED), lambda *_: None),
        **dict.fromkeys((AFTER, SEEN, CHECKED, FAILED), lambda value, *_: value),
    }
)
"""Functions of these names for code in which nothing is counted: a setup's."""
_SETUP = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SETUP_LINES = (*_SETUP, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.With, ast.Try)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.Match)
SOLUTION_MODULES = frozenset({"solution", "solutions", "program", "submission", "answer"})
"""Modules that tests import the program from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A text of tests, compiled.

    Attributes:
        checks: how many places in it check something.
        is_setup: it only defines and imports, or asserts True: other texts use what it brings.
        truths: names of functions whose result alone decides an assertion.
        is_asynchronous: it may wait for coroutines itself.
    """

    code: CodeType
    checks: int
    is_setup: bool
    truths: frozenset[str]
    is_asynchronous: bool


def checked(text: str, name: str, *, finds_truths: bool = True) -> Checked:
    """Compile a text of tests; ``name`` is its file's in tracebacks.

    Args:
        text: Python.
        name: its file's.
        finds_truths: whether ``truths`` are asked for.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError, OverflowError: as ``compile``.
    """
    tree = ast.parse(text, name)
    rename_twins(tree)
    body = [each for each in tree.body if not _is_docstring(each)]
    is_setup = bool(body) and all(isinstance(e, _SETUP_LINES) or is_idle(e) for e in body)
    truths = deciding_names(tree) if finds_truths else frozenset()
    counting = _Counting(names_read(tree))
    tree = ast.fix_missing_locations(counting.visit(tree))
    return Checked(
        code=compile(tree, name, "exec"),
        checks=counting.checks,
        is_setup=is_setup,
        truths=truths,
        is_asynchronous="async" in text or "await" in text,
    )


class _Counting(ast.NodeTransformer):
    """Adds the calls; the lines of the tests stay theirs."""

    def __init__(self, read: frozenset[str]) -> None:
        self.checks = 0
        self._read = read

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
        if asserts(last_name(node.func)):
            self.checks += 1
            node.func = _call(CHECKED, node.func)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """``f(x) == 1 and x == before``: the second sees what the first did to arguments."""
        self.generic_visit(node)
        last = node.values[-1]
        node.values = [_call(AFTER, e) if has_call(e) else e for e in node.values[:-1]] + [last]
        return node

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        return self._display(node)

    def visit_List(self, node: ast.List) -> ast.AST:
        return self._display(node)

    def _display(self, node: ast.Tuple | ast.List) -> ast.AST:
        """``(f(x), x)``: the second is what the first left."""
        calls = [has_call(each) for each in node.elts]
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.elts = [
                _call(SEEN, each) if isinstance(each, ast.Name) and any(calls[:place]) else each
                for place, each in enumerate(node.elts)
            ]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """``if not ...: raise``, so that it is known that it failed."""
        self.generic_visit(node)
        error = ast.Call(ast.Name("AssertionError", ast.Load()), [node.msg] if node.msg else [], [])
        of_assertion = ast.Constant(value=True)
        fails = ast.Raise(_call(FAILED, ast.copy_location(error, node), of_assertion))
        fails = ast.copy_location(fails, node)
        return ast.copy_location(ast.If(ast.UnaryOp(ast.Not(), node.test), [fails], []), node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if node.exc is not None and isinstance(kind, ast.Name) and kind.id == "AssertionError":
            node.exc = _call(FAILED, node.exc)
        return node

    def _statements(self, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in statements:
            if _is_docstring(statement) or _is_future(statement):
                yield statement
                continue
            if isinstance(statement, ast.ImportFrom) and _is_star_of_solution(statement):
                continue  # its names are looked up where they are used
            for each in one_by_one(statement):
                yield _told(BEGINS, each, ast.Constant(int(kind_of(each))))
                if checks_something(each):
                    self.checks += 1
                    yield _told(REACHED, each, ast.Constant(isinstance(each, ast.Assert)))
                elif isinstance(each, _LOOPS) and may_fail([each]):
                    yield _told(LOOPS, each)
                raises = isinstance(each, ast.With) and awaits_failure(each)
                if isinstance(each, ast.Try):
                    self._tell_handlers(each)
                holds = isinstance(each, ast.Assert) and checks_something(each)
                yield self.visit(each)
                if holds:
                    yield _told(HELD, each)
                if raises:
                    yield _told(HANDLED, each)

    def _tell_handlers(self, statement: ast.Try) -> None:
        wanted, awaits = may_fail([*statement.body, *statement.orelse]), awaits_exception(statement)
        for handler in statement.handlers:
            told = [] if swallows(handler, self._read) else [_told(HANDLED, handler)]
            if awaits or (wanted and not catches_assertions(handler.type)):
                self.checks += 1  # what has to be raised was
                told.append(_told(REACHED, handler, ast.Constant(value=False)))
            elif wanted and not told:
                early = ast.Constant("an exception was raised before an assertion")
                told = [_told(FAILED, handler, early)]
            handler.body = [*told, *handler.body]


def _told(name: str, where: ast.AST, *given: ast.expr) -> ast.stmt:
    statement = ast.Expr(ast.Call(ast.Name(name, ast.Load()), list(given), []))
    return ast.copy_location(statement, where) if hasattr(where, "lineno") else statement


def _call(name: str, given: ast.expr, *more: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [given, *more], []), given)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_star_of_solution(statement: ast.ImportFrom) -> bool:
    return statement.module in SOLUTION_MODULES and statement.names[0].name == "*"
