"""Arguments that tests look at again: a program's changes of them stay in its process.

A call copies its arguments. A test that looks at one of them later would see it unchanged: it would
fail programs that should change it, and pass those that should not. So the tests' text has to show
that no argument is looked at, or given, again. What is let through: another part of the comparison
or call that the program's call stands in, which sees the arguments as they were before it; a name
that was assigned anew; a value that cannot change.
"""

import ast
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dph._processes.sandbox.checks import assigned, is_data, is_test, last_name, walk

Key = tuple[int, str]
"""The function that a name belongs to, as the number of its node (0: none), and the name."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.While, *_COMPREHENSIONS, ast.FunctionDef, ast.Lambda)
_BLOCKS = (*_LOOPS, ast.If, ast.With)
_PLAIN = frozenset(
    {"len", "int", "float", "str", "bool", "abs", "round", "ord", "chr", "repr", "range", "hash"}
    | {"hex", "bin", "oct", "pow", "divmod", "bytes", "complex", "isinstance", "type", "format"}
    | {"Decimal", "Fraction", "date", "datetime", "timedelta", "join", "lower", "upper", "strip"}
    | {"replace", "randint", "random", "uniform", "randrange", "sqrt", "floor", "ceil", "all"}
    | {"any", "startswith", "endswith", "count", "index", "isclose", "title", "capitalize"}
)
"""Functions whose results cannot change, and hold nothing that can."""
_SAME_ELEMENTS = frozenset({"enumerate", "zip", "sorted", "list", "tuple", "reversed", "set"})


class _Event(NamedTuple):
    """A name at a place: ``use``, ``give``, ``bind``; ``part``: the constant that it is indexed by.

    ``path`` are the nodes that it stands in, the outermost first.
    """

    kind: str
    key: Key
    path: tuple[ast.AST, ...]
    part: object = None


def looked_at_again(
    tree: ast.Module, is_call: Callable[[ast.AST], bool], functions: frozenset[str]
) -> str:
    """The name of an argument that is looked at after a call of the program; '' if there is none.

    Args:
        tree: all tests.
        is_call: whether a node is a call of the program.
        functions: names that are no variables.
    """
    events = _Events(is_call, functions)
    events.visit(tree)
    events.sort()
    for place, event in enumerate(events.found):
        if event.kind == "give" and not events.cannot_change(event.key) and events.is_seen(place):
            return event.key[1]
    return ""


class _Events:
    """The names of a text in the order in which they are evaluated."""

    def __init__(self, is_call: Callable[[ast.AST], bool], functions: frozenset[str]) -> None:
        self._is_call = is_call
        self._functions = functions
        self._path: list[ast.AST] = []
        self._scopes: list[tuple[int, set[str]]] = []
        self._gives = False
        self.found: list[_Event] = []
        self._values: dict[Key, list[tuple[ast.expr | None, bool]]] = {}
        self._parts: set[tuple[Key, Key]] = set()
        self._places: dict[Key, list[int]] = defaultdict(list)
        self._users: dict[Key, set[int]] = defaultdict(set)

    def visit(self, node: ast.AST) -> None:
        """Note the names in a node."""
        match node:
            case ast.Raise():  # a failing test may show what it likes
                pass
            case ast.List() | ast.Tuple() | ast.Dict() | ast.Constant() if is_data(node):
                pass
            case ast.Name():
                if node.id not in self._functions:
                    self._note(node)
            case ast.Assert():
                self._inside(node, [node.test])
            case ast.Call():
                self._visit_call(node)
            case ast.FunctionDef() | ast.Lambda():
                self._visit_function(node)
            case ast.For():
                self.visit(node.iter)
                self._bind(node.target, node.iter, are_parts=True)
                self._inside(node, [node.target, *node.body, *node.orelse])
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._visit_comprehension(node)
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
                targets, value = assigned(node)
                self._inside(node, [*([value] if value else []), *targets])
                for target in targets:
                    self._bind(target, value, are_parts=not isinstance(target, ast.Name))
                    self._bind(targets[0], target, are_parts=False)
            case ast.AugAssign(value=value, target=ast.Name(id=name)):
                self._inside(node, [value])
                self._values.setdefault(self._key(name), []).append((value, False))
                self.found.append(_Event("use", self._key(name), tuple(self._path)))
            case _:
                self._inside(node, ast.iter_child_nodes(node))

    def _inside(self, node: ast.AST, children: Iterable[ast.AST]) -> None:
        self._path.append(node)
        for child in children:
            self.visit(child)
        self._path.pop()

    def _note(self, node: ast.Name) -> None:
        kind = "bind" if isinstance(node.ctx, ast.Store) else "give" if self._gives else "use"
        match self._path[-1]:
            case ast.Subscript(value=value, slice=ast.Constant(value=part)) if value is node:
                self.found.append(_Event(kind, self._key(node.id), tuple(self._path), part))
            case _:
                self.found.append(_Event(kind, self._key(node.id), tuple(self._path)))

    def _key(self, name: str) -> Key:
        return next(((n, name) for n, local in reversed(self._scopes) if name in local), (0, name))

    def _visit_call(self, node: ast.Call) -> None:
        name, gives = last_name(node.func), self._gives
        if name == "print":
            return
        if self._is_call(node):
            self._gives = True
        elif self._is_new(node):
            self._gives = False
        function = [node.func] if isinstance(node.func, ast.Attribute) else []
        self._inside(node, [*function, *node.args, *(each.value for each in node.keywords)])
        self._gives = gives

    def _is_new(self, node: ast.AST) -> bool:
        """True if a call makes something that shares nothing with its arguments."""
        name = last_name(node.func) if isinstance(node, ast.Call) else ""
        return name in _PLAIN | {"deepcopy"} and name not in self._functions

    def _visit_function(self, node: ast.FunctionDef | ast.Lambda) -> None:
        taken = [each for each in walk(node.args) if isinstance(each, ast.arg)]
        names = (n for n in walk(node) if isinstance(n, ast.Name))
        local = {n.id for n in names if isinstance(n.ctx, ast.Store)} | {a.arg for a in taken}
        self._inside(node, [node.args])
        rows = _rows(node)
        held = {name: set(map(self._key, self._names(row))) for name, row in rows.items()}
        self._scopes.append((id(node), local))
        for each in taken:
            key = (id(node), each.arg)
            self.found.append(_Event("bind", key, (*self._path, node)))
            self._values.setdefault(key, []).append((rows.get(each.arg), True))
            self._parts |= {(key, other) for other in held.get(each.arg, ())}
        self._inside(node, node.body if isinstance(node, ast.FunctionDef) else [node.body])
        self._scopes.pop()

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        parts: list[ast.AST] = [first.target, *first.ifs]
        for each in others:
            parts += [each.iter, each.target, *each.ifs]
        for each in node.generators:
            self._bind(each.target, each.iter, are_parts=True)
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._inside(node, [*parts, *elements])

    def _bind(self, target: ast.AST, value: ast.expr | None, *, are_parts: bool) -> None:
        """Note what a name's value is, or is a part of."""
        held = set(map(self._key, self._names(value))) if value else set()
        for each in walk(target):
            if isinstance(each, ast.Name):
                key = self._key(each.id)
                self._values.setdefault(key, []).append((value, are_parts))
                self._parts |= {(key, other) for other in held}
                self._parts |= set() if are_parts else {(other, key) for other in held}

    def _names(self, node: ast.AST) -> Iterator[str]:
        """Names whose values an expression may hold: not what calls make of them."""
        if isinstance(node, ast.Name):
            yield node.id
        if not is_data(node) and not self._is_new(node) and not self._is_call(node):
            for each in ast.iter_child_nodes(node):
                yield from self._names(each)

    def sort(self) -> None:
        """Note the places of each name, and the functions that use it."""
        for place, event in enumerate(self.found):
            self._places[event.key].append(place)
            if event.kind != "bind":
                self._users[event.key].add(id(_function(event.path)))

    def cannot_change(self, key: Key, known: frozenset[Key] = frozenset()) -> bool:
        """True if all values of a name are numbers, texts and the like."""
        values = self._values.get(key, [(None, False)])
        return key in known or all(
            value is not None and self._is_plain(value, are_parts, known | {key})
            for value, are_parts in values
        )

    def _is_plain(self, node: ast.expr, of_parts: bool, known: frozenset[Key]) -> bool:
        """True if a value, or each of its parts, cannot change."""
        match node:
            case ast.Constant() | ast.JoinedStr() | ast.Compare():
                return True
            case ast.Name(id=name):
                keys = {key for key in self._values if key[1] == name}
                if keys <= known:
                    return bool(keys)
                values = [each for key in keys for each in self._values[key]]
                return all(
                    value is not None and self._is_plain(value, of_parts or part, known | keys)
                    for value, part in values
                )
            case ast.Call():
                is_same = of_parts and last_name(node.func) in _SAME_ELEMENTS
                is_plain = is_same and all(self._is_plain(e, True, known) for e in node.args)
                return is_plain or (self._is_new(node) and last_name(node.func) != "deepcopy")
            case ast.List() | ast.Set() if of_parts:
                return all(self._is_plain(each, False, known) for each in node.elts)
            case ast.Tuple():
                return all(self._is_plain(each, False, known) for each in node.elts)
            case ast.UnaryOp() | ast.BinOp() | ast.BoolOp() | ast.IfExp() | ast.Subscript():
                parts = (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
                return all(self._is_plain(each, of_parts, known) for each in parts)
        return False

    def _related(self, key: Key) -> set[Key]:
        """A name, those of what it is a part of, and those of its parts."""
        found = set()
        for up, down in ((0, 1), (1, 0)):
            waiting = {key}
            while waiting:
                found |= waiting
                waiting = {p[down] for p in self._parts if p[up] in waiting} - found
        return found

    def is_seen(self, place: int) -> bool:
        """True if another place sees what a call did to the argument at ``place``, or gives it."""
        given, function = self.found[place], _function(self.found[place].path)
        loops = _loops(given.path)
        if any(not self._is_bound(place, loop) for loop in loops):
            return True
        related = self._related(given.key)
        if any(self._users[key] - {id(None), id(function)} for key in related):
            return True
        others = self._places[given.key]
        if len(related) > 1:
            others = sorted(n for key in related for n in self._places[key])
        for other in others if loops else others[bisect(others, place) :]:
            if self._sees(place, other):
                return True
            if len(related) == 1 and self._is_anew(place, other):
                return False  # whatever comes
        return False

    def _is_anew(self, place: int, other: int) -> bool:
        """True if all that comes after a call comes after an assignment, too."""
        if other < place or self.found[other].kind != "bind":
            return False
        block = self._block(other)
        is_whole = isinstance(block[-1], ast.Module | ast.FunctionDef)
        return is_whole and block == self.found[place].path[: len(block)]

    def _sees(self, place: int, other: int) -> bool:
        given, event = self.found[place], self.found[other]
        is_other = given.key == event.key and None not in (given.part, event.part)
        if place == other or event.kind == "bind" or (is_other and given.part != event.part):
            return False
        common = [a for a, b in zip(given.path, event.path, strict=False) if a is b]
        is_beside = event.kind == "use" or self._is_call(common[-1])
        if isinstance(common[-1], ast.Compare | ast.Call) and is_beside:
            return False
        is_later = other > place and not self._is_bound(other, None, after=place)
        return is_later or any(not self._is_bound(other, loop) for loop in _loops(common))

    def _is_bound(self, place: int, loop: ast.AST | None, *, after: int = -1) -> bool:
        """True if a name is always assigned before it is used: in a loop, or after a place."""
        event = self.found[place]
        for number in reversed(self._places[event.key]):
            if after < number < place and self.found[number].kind == "bind":
                block = self._block(number)
                if event.path[: len(block)] == block and (loop is None or loop in block):
                    return True
        return False

    def _block(self, place: int) -> tuple[ast.AST, ...]:
        """Nodes around the statement at a place."""
        path = self.found[place].path
        while not isinstance(path[-1], (*_BLOCKS, ast.Module)):
            path = path[:-1]
        return path


def _loops(path: Iterable[ast.AST]) -> list[ast.AST]:
    """Nodes that may run more than once: loops, and functions that are no tests."""
    return [each for each in path if isinstance(each, _LOOPS) and not is_test(each)]


def _function(path: Sequence[ast.AST]) -> ast.AST | None:
    """The innermost function around a place."""
    functions = (ast.FunctionDef, ast.Lambda)
    return next((each for each in reversed(path) if isinstance(each, functions)), None)


def _rows(node: ast.FunctionDef | ast.Lambda) -> dict[str, ast.expr]:
    """The rows that ``parametrize`` gives to each parameter."""
    found = {}
    for each in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
        if isinstance(each, ast.Call) and len(each.args) > 1:
            names = [n.strip() for n in str(getattr(each.args[0], "value", "")).split(",")]
            found.update(dict.fromkeys(names, each.args[1]))
    return found
