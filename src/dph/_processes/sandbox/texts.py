"""Texts of tests: what they check, and what the names in them mean.

A test that checks nothing passes whatever a program does: a function that is never called, a loop
over nothing. So every check reports that it was reached, and a text that reached none is no test.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, MappingProxyType
from typing import NoReturn, TypeVar

REACHED = "__dph_reached__"
"""Name that a compiled text calls: a check is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTests:
    """A text of tests, compiled."""

    code: CodeType
    checks: int
    """Number of places in it that check something."""
    is_setup: bool
    """True if it only defines and imports: other texts use what it brings."""
    may_skip: bool
    """True if a check of it is in a loop or under a condition."""
    functions: tuple[str, ...]
    """The tests that it defines, and ``check``, in order."""


def checked(tree: ast.Module, name: str) -> CompiledTests:
    """Compile a text, whose forms are known (dph._processes.sandbox.forms).

    ``name`` is its file's in tracebacks.
    """
    inside = [n for n in walk(tree) if isinstance(n, ast.For | ast.While | ast.If)]
    may_skip = any(is_check(each) for node in inside for each in walk(node) if each is not node)
    texts = [e for e in tree.body if isinstance(e, ast.Expr) and isinstance(e.value, ast.Constant)]
    is_setup = all(isinstance(each, _SETUP) or each in texts for each in tree.body)
    functions = [e.name for e in tree.body if isinstance(e, ast.FunctionDef) and is_test(e)]
    counting = _CheckCounter()
    tree = counting.visit(tree)
    return CompiledTests(
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


def last_name(function: ast.expr) -> str:
    """``b`` of the function ``a.b``."""
    return str(getattr(function, "attr", getattr(function, "id", "")))


class _CheckCounter(ast.NodeTransformer):
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


NOT_SUPPORTED = "tests of this form are not supported"
SOLUTION_MODULES = frozenset({"solution", "solutions", "program", "submission", "answer"})
"""Modules that tests import the program from."""
MODULES = frozenset(
    {"__future__", "array", "bisect", "calendar", "cmath", "collections", "copy", "datetime"}
    | {"decimal", "fractions", "functools", "heapq", "itertools", "json", "math", "numbers"}
    | {"numpy", "operator", "pytest", "random", "re", "statistics", "string", "time", "typing"}
)
"""Modules that tests import: what they have works on values."""
USUAL = MappingProxyType({**{each: each for each in MODULES}, "np": "numpy"})
"""Names that tests often forget to import."""
TAKE_FUNCTIONS = frozenset({"map", "filter", "starmap", "raises", "callable", "check"})
"""Functions that may be given one of the program's."""


class TaskError(Exception):
    """The task's own code does not work."""


def refuse(form: str, node: ast.AST | None = None) -> NoReturn:
    shown = f": {ast.unparse(node).splitlines()[0][:80]}" if node is not None else ""
    raise TaskError(f"{NOT_SUPPORTED}: {form}{shown}")


class Names:
    """Meanings of the names in a task's texts.

    Calls of ``check`` are taken out of the texts: it is called anyway.

    Attributes:
        program: names of the program's that they use.
        candidates: names by which tests are given the program's function.
        candidate: that function, ``Class.method`` for a method; '' if the task does not say.
        functions, modules: names that they define and import.
        others: names of classes of the task.
        bound: all names that mean something of the task's own.
        usual: names that they forget to import.
        returned: names of what calls of the program return, and of what is made of that.
    """

    def __init__(
        self, tests: Sequence[ast.Module], before: Sequence[ast.Module], entry: str
    ) -> None:
        own = [node for tree in tests for node in walk(tree)]
        earlier = [node for tree in before for node in walk(tree)]
        every = [*own, *earlier]
        self.functions = frozenset(n.name for n in _all(ast.FunctionDef, every))
        self.others = frozenset(n.name for n in _all(ast.ClassDef, earlier))
        self.modules = frozenset(_modules_of(every))
        self.bound = self.functions | self.modules | frozenset(_bound(every))
        checks = [  # of one argument, as HumanEval has it
            node.args.args[0].arg
            for node in _all(ast.FunctionDef, own)
            if node.name == "check" and len(node.args.args) - len(node.args.defaults) == 1
        ]
        self.candidates = frozenset({"candidate", *checks})
        imported, name = frozenset(_imported(every)), entry.partition(".")[0]
        loaded = (n.id for n in _all(ast.Name, own) if isinstance(n.ctx, ast.Load))
        known = self.bound | self.others | imported | {*vars(builtins), "candidate", name}
        free = frozenset(loaded) - known - {"__name__"}
        self.usual = free & set(USUAL)
        free -= self.usual
        if free and (entry or imported):
            raise TaskError(f"the tests use {min(free)}, which neither they nor their setup define")
        if len(free) > 1:
            raise TaskError(
                f"the tests call {', '.join(sorted(free))}: say by entry_point which is the "
                "program's, and define the other"
            )
        self.program = imported | ({name} if entry else free)
        defined = {n.name for n in _all(ast.FunctionDef, own)} | set(_bound(own))
        if taken := self.program & defined - self.candidates:
            raise TaskError(f"the tests define {min(taken)}, and never use the program's")
        self.candidate = entry or (min(self.program) if len(self.program) == 1 else "")
        self._wrappers = self._calling(every)
        if any(self.is_call(node) for node in _all(ast.Call, earlier)):
            refuse("a setup that calls the program")
        self.returned = self._returned(own)
        for tree in tests:
            tree.body = [each for each in tree.body if not self._calls_check(each)]
        if checks and not self.candidate:
            raise TaskError(
                "the tests define check(candidate), and no entry_point names the candidate"
            )

    def _calls_check(self, statement: ast.stmt) -> bool:
        """``check(f)``: if nothing else says so, it names the candidate."""
        value = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(value, ast.Call) or last_name(value.func) != "check":
            return False
        is_method = [*map(ast.unparse, value.args)] == [self.candidate]
        if not is_method and (len(value.args) != 1 or not self.is_function(value.args[0])):
            refuse("a check of something else", value)
        self.candidate = self.candidate or last_name(value.args[0])
        return True

    def _calling(self, nodes: Sequence[ast.AST]) -> set[str]:
        """Functions of the tests that call the program."""
        found = self._wrappers = set[str]()
        holders = [(n.name, [*walk(n)]) for n in _all(ast.FunctionDef, nodes) if not is_test(n)]
        holders += [
            (target.id, [*walk(node.value)])
            for node in _all(ast.Assign, nodes)
            for target in node.targets
            if isinstance(node.value, ast.Lambda) and isinstance(target, ast.Name)
        ]
        size = -1
        while size < len(found):
            size = len(found)
            found |= {name for name, inside in holders if any(map(self.is_call, inside))}
        return found

    def is_call(self, node: ast.AST) -> bool:
        """True if the program is called, also by a function of the tests."""
        if not isinstance(node, ast.Call):
            return False
        name = last_name(node.func)
        if name in TAKE_FUNCTIONS and any(map(self.is_function, node.args)):
            return True
        return name in self._wrappers or self.is_function(node.func)

    def is_function(self, node: ast.expr) -> bool:
        """True if an expression is a function of the program."""
        name = node.id if isinstance(node, ast.Name) else ""
        return name in self.program or name in self.candidates

    def _returned(self, nodes: Sequence[ast.AST]) -> frozenset[str]:
        pairs = [assigned(node) for node in nodes]
        pairs += [([node.target], node.iter) for node in _all(ast.For, nodes)]
        made = [
            (set(_bound(walk(target))), self._mentioned([*walk(value)]))
            for targets, value in pairs
            if value is not None
            for target in targets
        ]
        found, size = {""}, 0
        while size < len(found):
            size = len(found)
            found |= {name for names, mentioned in made if mentioned & found for name in names}
        return frozenset(found)

    def _mentioned(self, nodes: Sequence[ast.AST]) -> set[str]:
        """The names in an expression, and '' if it calls the program."""
        called = {""} if any(map(self.is_call, nodes)) else set[str]()
        return called | {each.id for each in _all(ast.Name, nodes)}


def _modules_of(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Names that are imported, but the program's."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.asname or each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module not in SOLUTION_MODULES:
            yield from (each.asname or each.name for each in node.names)


def _imported(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Names that are imported from the program."""
    for node in _all(ast.ImportFrom, nodes):
        for each in node.names if node.module in SOLUTION_MODULES else ():
            if each.asname:
                refuse("a name that is imported as another", node)
            if each.name != "*":
                yield each.name


_Node = TypeVar("_Node", bound=ast.AST)


def _all(kind: type[_Node], nodes: Iterable[ast.AST]) -> Iterator[_Node]:
    return (node for node in nodes if isinstance(node, kind))


def _bound(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
