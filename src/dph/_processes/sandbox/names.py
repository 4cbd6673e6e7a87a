"""The names in a task's tests: the program's, those of modules, and the tests' own."""

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import NoReturn, TypeVar

from dph._processes.sandbox.checks import is_test, last_name

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
    """Refuse a text.

    Raises:
        TaskError: always.
    """
    shown = f": {ast.unparse(node).splitlines()[0][:80]}" if node is not None else ""
    raise TaskError(f"{NOT_SUPPORTED}: {form}{shown}")


class Names:
    """What the names in a task's texts mean.

    Calls of ``check`` are taken out of the texts: it is called anyway.

    Attributes:
        program: names of the program's that they use.
        classes: those of them that are classes, of whose new objects methods are called.
        candidates: names by which tests are given the program's function.
        candidate: that function, ``Class.method`` for a method; '' if the task does not say.
        functions, modules: names that they define and import.
        others: names of classes of the task.
        bound: all names that mean something of the task's own.
        usual: names that they forget to import.

    Raises:
        TaskError: a name has no meaning.
    """

    def __init__(
        self, tests: Sequence[ast.Module], before: Sequence[ast.Module], entry: str
    ) -> None:
        every = [*tests, *before]
        self.functions = frozenset(n.name for n in _all(ast.FunctionDef, every))
        self.others = frozenset(n.name for n in _all(ast.ClassDef, before))
        self.modules, self._solutions = _modules_of(every)
        self.bound = self.functions | self.modules | frozenset(_bound(every))
        checks = [each for tree in tests for each in tree.body if _is_check_of_one(each)]
        self.candidates = frozenset({"candidate"} | {each.args.args[0].arg for each in checks})
        imported, name = frozenset(_imported(every, self._solutions)), entry.partition(".")[0]
        loaded = (n.id for n in _all(ast.Name, tests) if isinstance(n.ctx, ast.Load))
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
        own = {n.name for n in _all(ast.FunctionDef, tests)} | set(_bound(tests))
        if taken := self.program & own - self.candidates:
            raise TaskError(f"the tests define {min(taken)}, and never use the program's")
        made = (n.func.id for n in _all(ast.Call, tests) if is_new_object(n))
        self.classes = self.program & frozenset(made)
        self.candidate = entry or (min(self.program) if len(self.program) == 1 else "")
        self._wrappers = self._calling(every)
        if any(self.is_call(node) for node in _all(ast.Call, before)):
            refuse("a setup that calls the program")
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
        if len(value.args) != 1 or not self.is_function(value.args[0]):
            refuse("a check of something else", value)
        self.candidate = self.candidate or ast.unparse(value.args[0]).replace("()", "")
        return True

    def _calling(self, trees: Sequence[ast.Module]) -> set[str]:
        """Functions of the tests that call the program."""
        found = self._wrappers = set[str]()
        holders = [(n.name, n) for n in _all(ast.FunctionDef, trees) if not is_test(n)]
        holders += [
            (target.id, node.value)
            for node in _all(ast.Assign, trees)
            for target in node.targets
            if isinstance(node.value, ast.Lambda) and isinstance(target, ast.Name)
        ]
        size = -1
        while size < len(found):
            size = len(found)
            found |= {name for name, node in holders if any(map(self.is_call, ast.walk(node)))}
        return found

    def is_call(self, node: ast.AST) -> bool:
        """Whether the program is called, also by a function of the tests."""
        if not isinstance(node, ast.Call):
            return False
        name = last_name(node.func)
        if name in TAKE_FUNCTIONS and any(map(self.is_function, node.args)):
            return True
        return name in self._wrappers or self.is_function(node.func)

    def is_function(self, node: ast.expr) -> bool:
        """Whether an expression is a function of the program."""
        if isinstance(node, ast.Name):
            return node.id in self.program or node.id in self.candidates
        base = node.value if isinstance(node, ast.Attribute) else None
        if isinstance(base, ast.Name):
            return base.id in self._solutions
        return base is not None and is_new_object(base) and self.is_function(base.func)

    def returned(self, trees: Sequence[ast.Module]) -> frozenset[str]:
        """Names of what calls of the program return."""
        return frozenset(
            name.id
            for node in _all(ast.Assign, trees)
            if any(map(self.is_call, ast.walk(node.value)))
            for target in node.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        )


def is_new_object(node: ast.AST) -> bool:
    """``Solution()``."""
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return False
    return isinstance(node.func, ast.Name) and node.func.id[:1].isupper()


def _is_check_of_one(node: ast.stmt) -> bool:
    """``def check(candidate)``."""
    if not isinstance(node, ast.FunctionDef) or node.name != "check":
        return False
    return len(node.args.args) - len(node.args.defaults) == 1


def _modules_of(trees: Sequence[ast.Module]) -> tuple[frozenset[str], frozenset[str]]:
    """Names that are imported, but the program's; those of modules that stand for the program."""
    found, solutions = set[str](), set[str]()
    for node in _all(ast.Import, trees):
        for each in node.names:
            name = each.asname or each.name.partition(".")[0]
            (solutions if each.name in SOLUTION_MODULES else found).add(name)
    for node in _all(ast.ImportFrom, trees):
        if node.module not in SOLUTION_MODULES:
            found |= {each.asname or each.name for each in node.names}
    return frozenset(found | solutions), frozenset(solutions)


def _imported(trees: Sequence[ast.Module], solutions: frozenset[str]) -> Iterator[str]:
    """Names that are imported from the program, or asked of its module."""
    for node in _all(ast.ImportFrom, trees):
        for each in node.names if node.module in SOLUTION_MODULES else ():
            if each.asname:
                refuse("a name that is imported as another", node)
            if each.name != "*":
                yield each.name
    for attribute in _all(ast.Attribute, trees):
        if isinstance(attribute.value, ast.Name) and attribute.value.id in solutions:
            yield attribute.attr


_Node = TypeVar("_Node", bound=ast.AST)


def _all(kind: type[_Node], trees: Iterable[ast.AST]) -> Iterator[_Node]:
    return (node for tree in trees for node in ast.walk(tree) if isinstance(node, kind))


def _bound(trees: Iterable[ast.AST]) -> Iterator[str]:
    """Names that texts assign."""
    for node in _all(ast.AST, trees):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
