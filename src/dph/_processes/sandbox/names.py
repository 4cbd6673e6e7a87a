"""The names in a task's tests: the program's, those of modules, and the tests' own."""

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import NoReturn, TypeVar

from dph._processes.sandbox.checks import assigned, is_test, last_name, walk

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
    """Refuse a text."""
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
        checks = [*filter(_is_check_of_one, _all(ast.FunctionDef, own))]
        self.candidates = frozenset({"candidate"} | {each.args.args[0].arg for each in checks})
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


def _is_check_of_one(node: ast.FunctionDef) -> bool:
    """True if it is ``def check(candidate)``."""
    return node.name == "check" and len(node.args.args) - len(node.args.defaults) == 1


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
    """Names that texts assign."""
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
