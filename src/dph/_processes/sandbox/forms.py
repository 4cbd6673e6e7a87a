"""Forms of tests: those that are run, and the names by which all others are refused.

The program is in another process, and only values pass between the two. What tests look at in
addition to values would differ from what one process shows, so their text must have one of these
forms, which is decided before any program runs. Any other is not a test (``BAD_GOLD``).

========================================= ==========================================================
form                                      what is run
========================================= ==========================================================
``assert f(2) == 3``                      each text by itself, top to bottom; also in loops, under
                                          conditions, in functions that the text calls
``def check(candidate): ...``             with the function that ``entry_point`` names
``def test_a(): ...``                     each; also of a class ``Test...`` that keeps nothing in
                                          ``self``; one that returns True or False says so
``@pytest.mark.parametrize``              once for each row
``with pytest.raises(ValueError):``       for Python's own exceptions; also ``match``
``pytest.approx``, ``math.isclose``       as there
``if f(2) != 3: raise ...``               a condition that fails is a check
``cases``                                 arguments and what is returned; standard input and output
========================================= ==========================================================

The program is what ``entry_point`` names, what is imported from ``solution``, or else the one
name that is not defined. Refused, by these names:

* ``a class``: of unittest, one that keeps something, one of the program's
* ``a fixture``, ``a decorator``, ``pytest.skip`` and what else pytest has
* ``an import of`` a module that is not in ``MODULES`` (of ``unittest.mock``, say), ``a change of an
  attribute``
* ``a coroutine``, ``a generator``, ``a match``, ``a deletion``, ``a global variable``, ``an
  assignment within an argument``
* ``a try statement``, ``a with statement`` that is not as above
* ``an argument that is looked at again`` (dph._processes.sandbox.given), ``a returned value that
  the tests change``
* ``an attribute of an object``: what no plain value has
* ``an identity``: ``is`` between values
* ``a function given to the program``, ``an iterator given to the program``, ``a function of the
  program that is not called``, ``a function that is returned``
* ``an exception that is none of Python's own``, ``an assertion that always holds``
* ``a seed``, ``standard input or output``, ``code that is made``, ``an end``
* ``two functions of one name``, ``a function under a condition``, ``a name that is imported as
  another``, ``a check of something else``, ``a setup that calls the program``
"""

import ast
import builtins
import random
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dph._processes.sandbox.given import require_no_second_look
from dph._processes.sandbox.program import completed, prefix_alone
from dph._processes.sandbox.texts import (
    MODULES,
    SOLUTION_MODULES,
    TAKE_FUNCTIONS,
    CompiledTests,
    Names,
    TaskError,
    checked,
    is_test,
    last_name,
    refuse,
    walk,
)
from dph._processes.sandbox.values import TYPES

_KINDS = {
    ast.ClassDef: "a class",
    ast.Match: "a match",
    ast.Delete: "a deletion",
    **dict.fromkeys((ast.Try, ast.TryStar), "a try statement"),
    **dict.fromkeys((ast.Global, ast.Nonlocal), "a global variable"),
    **dict.fromkeys((ast.Yield, ast.YieldFrom), "a generator"),
    **dict.fromkeys((ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await), "a coroutine"),
}
_NAMES = {
    **dict.fromkeys(("input", "open"), "standard input or output"),
    **dict.fromkeys(("eval", "exec", "compile", "__import__", "globals"), "code that is made"),
    **dict.fromkeys(("locals", "vars", "getattr", "dir", "breakpoint"), "code that is made"),
    **dict.fromkeys(("setattr", "delattr"), "a change of an attribute"),
    **dict.fromkeys(("exit", "quit"), "an end"),
    **dict.fromkeys(("super", "property", "staticmethod", "classmethod"), "a class"),
    "id": "an identity",
}
_NUMPY = ("ndarray", "generic")
_VALUES = (*TYPES.values(), random.Random, re.Pattern, re.Match)
_ATTRIBUTES = frozenset({"value", "match"}).union(*map(dir, _VALUES))
"""Attributes of values, and of what ``raises`` gives."""
_CHANGES = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "add"}
    | {"discard", "setdefault", "popitem", "appendleft", "popleft", "rotate", "fill", "shuffle"}
    | {"heapify", "heappush", "heappop", "insort"}
)
_MAKE_ITERATORS = frozenset({"iter", "map", "filter", "zip", "enumerate", "reversed"})


def plan(
    texts: Mapping[str, str], setup: str, prefix: str, entry: str
) -> tuple[list[CompiledTests], Names]:
    """Texts of tests, by their names in tracebacks, compiled; and the meanings of names in them."""
    try:
        trees = [ast.parse(text, name) for name, text in texts.items()]
        before = [ast.parse(prefix_alone(prefix, entry)), ast.parse(completed(setup))]
        for tree in trees:
            tree.body = list(_without_classes(tree.body))
        names = Names(trees, before, entry)
        _Forms(trees, names)
        done = [checked(tree, name) for tree, name in zip(trees, texts, strict=True)]
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise TaskError(f"the tests do not compile: {type(error).__name__}: {error}") from error
    for number, test in enumerate(done, start=1):
        if not test.checks and not test.is_setup:
            raise TaskError(f"test {number} of {len(done)} asserts nothing")
    if done and not any(test.checks for test in done):
        raise TaskError("the tests assert nothing")
    return done, names


class _Forms:
    """Refuses the forms of texts whose names have a meaning."""

    def __init__(self, trees: Sequence[ast.Module], names: Names) -> None:
        self._names = names
        numpy = sys.modules.get("numpy")
        arrays = [getattr(numpy, name) for name in _NUMPY if hasattr(numpy, name)]
        self._attributes = _ATTRIBUTES.union(*map(dir, arrays))
        for tree in trees:
            self._require(tree)
        known = names.program | names.candidates | names.functions | names.modules
        tree = ast.Module(body=[each for tree in trees for each in tree.body], type_ignores=[])
        require_no_second_look(tree, names.is_call, known)

    def _require(self, tree: ast.Module) -> None:
        names = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
        if twice := [name for name in names if names.count(name) > 1]:
            refuse(f"two functions of one name: {twice[0]}")
        nodes = list(walk(tree))
        holders = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
        refusable = [n for n in nodes if isinstance(n, ast.stmt | ast.expr)]
        for node in sorted(refusable, key=_place):
            if kind := _KINDS.get(type(node)):
                refuse(kind, node)
            match node:
                case ast.Import() | ast.ImportFrom():
                    self._require_import(node)
                case ast.FunctionDef():
                    self._require_function(node, holders[id(node)])
                case ast.With():
                    for call in (item.context_expr for item in node.items):
                        if not isinstance(call, ast.Call) or ast.unparse(call.func) not in _RAISES:
                            refuse("a with statement", call)
                case ast.Name():
                    self._require_name(node, holders)
                case ast.Attribute():
                    self._require_attribute(node)
                case ast.Compare():
                    _require_equality(node)
                case ast.Assert():
                    self._require_open(node)
                case ast.Call():
                    self._require_call(node)
                case ast.AugAssign(value=ast.Constant()):
                    pass
                case ast.AugAssign(target=target):
                    self._require_own(target, node)
                case ast.Subscript(ctx=ast.Store(), value=value):
                    self._require_own(value, node)

    def _require_import(self, node: ast.Import | ast.ImportFrom) -> None:
        named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in named or [each.name for each in node.names]:
            from_program = bool(named) and name in SOLUTION_MODULES
            if name.partition(".")[0] not in MODULES and not from_program:
                refuse(f"an import of {name}")
        if named == ["pytest"]:
            for each in node.names:
                _require_pytest(each.name)

    def _require_function(self, node: ast.FunctionDef, holder: ast.AST) -> None:
        if not isinstance(holder, ast.Module | ast.FunctionDef):
            refuse("a function under a condition", node)
        given = {"candidate"} if self._names.candidate else set[str]()
        for each in node.decorator_list:
            names = each.args[0] if isinstance(each, ast.Call) and each.args else None
            text = getattr(names, "value", None)
            name = ast.unparse(each).partition("(")[0]
            if not isinstance(text, str) or name not in _PARAMETRIZE or not is_test(node):
                refuse("a decorator", each)
            given |= {name.strip() for name in text.split(",")}
        if not is_test(node) or (node.name == "check" and not node.decorator_list):
            return
        taken = node.args
        needed = [*taken.posonlyargs, *taken.args][: -len(taken.defaults) or None]
        if missing := [each.arg for each in needed if each.arg not in given]:
            refuse(f"a fixture: {missing[0]}")

    def _require_name(self, node: ast.Name, holders: Mapping[int, ast.AST]) -> None:
        is_strange = node.id in _NAMES or (node.id.startswith("__") and node.id != "__name__")
        if is_strange and node.id not in self._names.bound:
            refuse(_NAMES.get(node.id, "an attribute of an object"), node)
        if node.id in self._names.others:
            refuse("a class", node)
        own = self._names.program | self._names.candidates
        if node.id not in own or not isinstance(node.ctx, ast.Load):
            return
        call = holders[id(node)]
        if not isinstance(call, ast.Call) or (
            call.func is not node and last_name(call.func) not in TAKE_FUNCTIONS
        ):
            refuse("a function of the program that is not called", call)
        is_given = node.id in self._names.candidates
        name = self._names.candidate.rpartition(".")[2] if is_given else node.id
        if name[:1].isupper() and call.func is node:  # a class, or one of MBPP's functions
            holder = holders[id(call)]
            calls = [each for each in walk(holder) if self._names.is_call(each)]
            if not isinstance(holder, ast.Compare) or len(calls) > 1 or not call.args:
                refuse("a class", call)

    def _require_attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            refuse("a change of an attribute", node)
        if node.attr in ("seed", "setstate", "is_", "is_not"):
            refuse("a seed" if node.attr[0] == "s" else "an identity", node)
        if node.attr.startswith("__"):
            refuse("an attribute of an object", node)
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base.id == "pytest":
            _require_pytest(ast.unparse(node).partition(".")[2])
        modules = self._names.modules | self._names.usual
        known = isinstance(base, ast.Name) and base.id in modules
        if not (known or node.attr in self._attributes or self._names.is_function(node)):
            refuse("an attribute of an object", node)

    def _require_open(self, node: ast.Assert) -> None:
        test = node.test
        holds = isinstance(test, ast.Tuple | ast.List | ast.Set | ast.Dict)
        holds = holds or isinstance(test, ast.GeneratorExp | ast.Lambda | ast.JoinedStr)
        holds = holds or (
            isinstance(test, ast.ListComp) and not any(g.ifs for g in test.generators)
        )
        holds = holds or (isinstance(test, ast.Constant) and isinstance(test.value, str))
        holds = holds or (isinstance(test, ast.Name) and test.id in self._names.functions)
        if holds:
            refuse("an assertion that always holds", node)

    def _require_call(self, node: ast.Call) -> None:
        function = node.func
        returned = self._names.returned - self._names.functions
        is_returned = isinstance(function, ast.Name) and function.id in returned
        if is_returned or not isinstance(function, ast.Name | ast.Attribute):
            refuse("a function that is returned", node)
        if last_name(function) in _CHANGES:
            base = [function.value] if isinstance(function, ast.Attribute) else []
            for each in (*base, *node.args[:1]):
                self._require_own(each, node)
        if last_name(function) == "raises":
            _require_exceptions(node.args[0] if node.args else None, node)
        if self._names.is_function(function):
            for part in _given(node):
                if isinstance(part, ast.NamedExpr):
                    refuse("an assignment within an argument", node)
                if isinstance(part, ast.Lambda) or self._is_callable(part):
                    refuse("a function given to the program", node)
                is_made = isinstance(part, ast.Call) and last_name(part.func) in _MAKE_ITERATORS
                if is_made or isinstance(part, ast.GeneratorExp):
                    refuse("an iterator given to the program", node)

    def _require_own(self, changed: ast.expr, node: ast.AST) -> None:
        """Refuse a change of what the program returned: it may keep it, and return it again."""
        if isinstance(changed, ast.Name) and changed.id in self._names.returned:
            refuse("a returned value that the tests change", node)

    def _is_callable(self, node: ast.AST) -> bool:
        name = node.id if isinstance(node, ast.Name) else ""
        found = getattr(builtins, name, None)
        return name in self._names.functions or (callable(found) and not isinstance(found, type))


def _place(node: ast.AST) -> tuple[bool, int, int]:
    """The order of reasons: imports first, then as they stand in the text."""
    is_import = isinstance(node, ast.Import | ast.ImportFrom)
    return not is_import, node.lineno, node.col_offset  # type: ignore[attr-defined]


_RAISES = frozenset({"pytest.raises", "raises"})
_PARAMETRIZE = frozenset({"pytest.mark.parametrize", "mark.parametrize"})
_OF_PYTEST = frozenset({"raises", "approx", "fail", "mark"})
"""Parts of pytest that dph._processes.sandbox.judge replaces."""


def _require_pytest(name: str) -> None:
    if name.partition(".")[0] not in _OF_PYTEST or (name[:5] == "mark." and "z" not in name):
        refuse(f"pytest.{name}")


def _require_equality(node: ast.Compare) -> None:
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, ast.Is | ast.IsNot):
            is_type = isinstance(right, ast.Name) and right.id in TYPES
            if not isinstance(right, ast.Constant) and not is_type:
                refuse("an identity", node)


def _require_exceptions(node: ast.expr | None, where: ast.AST) -> None:
    for each in node.elts if isinstance(node, ast.Tuple) else [node]:
        kind = getattr(builtins, each.id, None) if isinstance(each, ast.Name) else None
        if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(
            kind, StopIteration | StopAsyncIteration
        ):
            refuse("an exception that is none of Python's own", where)


def _given(call: ast.Call) -> Iterator[ast.AST]:
    """Parts of the arguments of a call, but those of other calls in them."""
    waiting: list[ast.AST] = [*call.args, *(each.value for each in call.keywords)]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.Call | ast.Lambda | ast.Subscript | ast.Compare):
            waiting += ast.iter_child_nodes(node)


def _without_classes(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """A class ``Test...`` that keeps nothing in ``self`` as its functions."""
    for each in body:
        if not isinstance(each, ast.ClassDef):
            yield each
            continue
        functions = [n for n in each.body if isinstance(n, ast.FunctionDef)]
        selves = [n.args.args[0].arg if n.args.args else "" for n in functions]
        used = {n.id for n in walk(each) if isinstance(n, ast.Name)}
        others = [
            n for n in each.body if n not in functions and not isinstance(n, ast.Expr | ast.Pass)
        ]
        strange = others or each.bases or each.decorator_list or used & set(selves) or "" in selves
        if strange or not each.name.startswith("Test") or not all(map(is_test, functions)):
            refuse("a class", each)
        for function in functions:
            function.name = f"{function.name}__{each.name}"
            del function.args.args[0]
        yield from functions
