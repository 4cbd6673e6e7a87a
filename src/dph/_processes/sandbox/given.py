"""Arguments that tests look at again: a program's changes of them stay in its process.

A call copies its arguments. A test that looks at one of them later would see it unchanged: it would
fail programs that should change it, and pass those that should not. So the tests' text has to show
that no argument is looked at, or given, again. What is let through: another part of the comparison
or call that the program's call stands in, which sees the arguments as they were before it; a name
that was assigned anew; a value that cannot change.
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from dph._processes.sandbox.texts import assigned, is_data, is_test, last_name, refuse, walk

Key = tuple[int, str]
"""The function that a name belongs to, as the number of its node (0: none), and the name."""
Place = tuple[Key, object]
"""A name and the constant that it is indexed by: None for any, _ALL for a value as a whole."""
Path = tuple[tuple[ast.AST, int], ...]
"""Comparisons and calls around a node, the outermost first, and the part of each that it is in."""
_ALL = object()
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_PLAIN = frozenset(
    {"len", "int", "float", "str", "bool", "abs", "round", "ord", "chr", "repr", "range", "hash"}
    | {"hex", "bin", "oct", "pow", "divmod", "bytes", "complex", "isinstance", "type", "format"}
    | {"Decimal", "Fraction", "date", "datetime", "timedelta", "join", "lower", "upper", "strip"}
    | {"replace", "randint", "random", "uniform", "randrange", "sqrt", "floor", "ceil", "all"}
    | {"any", "startswith", "endswith", "count", "index", "isclose", "title", "capitalize"}
)
"""Functions whose results cannot change, and hold nothing that can."""
_SAME_ELEMENTS = frozenset({"enumerate", "zip", "sorted", "list", "tuple", "reversed", "set"})


def require_no_second_look(
    tree: ast.Module, is_call: Callable[[ast.AST], bool], functions: frozenset[str]
) -> None:
    """Refuse tests that look at an argument after a call of the program, which ``is_call`` tells.

    ``functions`` are names that are no variables.
    """
    reading = _Reading(is_call, functions)
    reading.visit(tree)  # before a look at a name is judged, all that names may hold must be known
    reading.checks = True
    reading.visit(tree)


class _Reading:
    """Reads a text in the order in which it is evaluated, what may run again a second time."""

    def __init__(self, is_call: Callable[[ast.AST], bool], functions: frozenset[str]) -> None:
        self._is_call, self._functions = is_call, functions
        self._scopes: list[tuple[int, set[str]]] = []
        self._gives = self.checks = False
        self._given: dict[Place, frozenset[Path]] = {}
        """Values that calls so far may have changed, and where they were given."""
        self._path: Path = ()
        self._values: defaultdict[Key, set[tuple[ast.expr | None, bool]]] = defaultdict(set)
        self._wholes: defaultdict[Key, set[Key]] = defaultdict(set)
        self._parts: defaultdict[Key, set[Key]] = defaultdict(set)
        self._users: defaultdict[Key, set[int]] = defaultdict(set)
        self._told: dict[Key, tuple[bool, set[Key]]] = {}

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.Module():
                self._given = {}
                self._visit_all(node.body)
            case ast.Raise():  # a failing test may show what it likes
                pass
            case ast.List() | ast.Tuple() | ast.Dict() | ast.Constant() if is_data(node):
                pass
            case ast.Name():
                self._look(node, None)
            case ast.Subscript(value=ast.Name() as name, slice=ast.Constant(value=part)):
                self._look(name, part)
            case ast.Assert():
                self.visit(node.test)
            case ast.Call() | ast.Compare():
                self._visit_together(node)
            case ast.FunctionDef() | ast.Lambda():
                self._visit_function(node)
            case ast.For():
                self.visit(node.iter)
                self._bind(node.target, node.iter, are_parts=True)
                self._repeat(lambda: self._visit_all([node.target, *node.body]))
                self._visit_all(node.orelse)
            case ast.While():
                self._repeat(lambda: self._visit_all([node.test, *node.body]))
                self._visit_all(node.orelse)
            case ast.If():
                self.visit(node.test)
                self._repeat(lambda: self._visit_all(node.body), times=1)
                self._repeat(lambda: self._visit_all(node.orelse), times=1)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.visit(node.generators[0].iter)
                self._visit_comprehension(node)
            case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
                targets, value = assigned(node)
                self._visit_all([*([value] if value else []), *targets])
                for target in targets:
                    self._bind(target, value, are_parts=not isinstance(target, ast.Name))
                    self._bind(targets[0], target, are_parts=False)
            case ast.AugAssign(value=value, target=ast.Name(id=name)):
                self.visit(value)
                self._values[self._key(name)].add((value, False))
                self._look(ast.Name(name, ast.Load()), None)
            case _:
                self._visit_all(ast.iter_child_nodes(node))

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _repeat(self, read: Callable[[], None], *, times: int = 2) -> None:
        """Read what may run this many times or more, or not at all."""
        before = dict(self._given)
        for _ in range(times):
            read()
            if self._given == before:
                break
        self._add(before)

    def _add(self, given: Mapping[Place, frozenset[Path]]) -> None:
        for place, paths in given.items():
            self._given[place] = self._given.get(place, frozenset()) | paths

    def _look(self, name: ast.Name, part: object) -> None:
        """Note a name where it is assigned, looked at or given to the program."""
        if name.id in self._functions:
            return
        key = self._key(name.id)
        if isinstance(name.ctx, ast.Store):
            self._forget(key)
            return
        function = self._scopes[-1][0] if self._scopes else 0
        self._users[key].add(function)
        if not self.checks:
            return
        cannot_change, related = self._relatives(key)
        gives = self._gives and not cannot_change
        if gives and any(self._users[other] - {0, function} for other in related):
            refuse(f"an argument that is looked at again: {key[1]}")
        for place in ((key, part), (key, _ALL)):
            if not all(self._is_beside(path, gives) for path in self._given.get(place, ())):
                refuse(f"an argument that is looked at again: {key[1]}")
        if gives:
            places = [(other, n) for other in related - {key} for n in (None, _ALL)]
            places += [(key, None), (key, _ALL if part is None else part)]
            self._add(dict.fromkeys(places, frozenset({self._path})))

    def _is_beside(self, path: Path, gives: bool) -> bool:
        """True if another part of a comparison or call was given: this one was looked at before."""
        for (node, part), (other, place) in zip(path, self._path, strict=False):
            if node is not other:
                return False
            if part != place:
                return not gives or self._is_call(node)
        return False

    def _forget(self, key: Key) -> None:
        if (key, None) in self._given:
            self._given = {place: v for place, v in self._given.items() if place[0] != key}

    def _key(self, name: str) -> Key:
        return next(((n, name) for n, local in reversed(self._scopes) if name in local), (0, name))

    def _visit_together(self, node: ast.Call | ast.Compare) -> None:
        """Visit the parts, each of which sees the arguments as they were before all of them."""
        parts, gives, path = list(ast.iter_child_nodes(node)), self._gives, self._path
        if isinstance(node, ast.Call):
            if last_name(node.func) == "print":
                return
            self._gives = self._is_call(node) or (gives and not self._is_new(node))
            function = [node.func] if isinstance(node.func, ast.Attribute) else []
            parts = [*function, *node.args, *(each.value for each in node.keywords)]
        for number, part in enumerate(parts):
            self._path = (*path, (node, number))
            if isinstance(part, _Comprehension):  # what it runs over is a part by itself
                self._path = (*path, (node, -1 - number))
                self.visit(part.generators[0].iter)
                self._path = (*path, (node, number))
                self._visit_comprehension(part)
            else:
                self.visit(part)
        self._gives, self._path = gives, path

    def _is_new(self, node: ast.AST) -> bool:
        """True if a call makes something that shares nothing with its arguments."""
        name = last_name(node.func) if isinstance(node, ast.Call) else ""
        return name in _PLAIN | {"deepcopy"} and name not in self._functions

    def _visit_function(self, node: ast.FunctionDef | ast.Lambda) -> None:
        taken = [each.arg for each in walk(node.args) if isinstance(each, ast.arg)]
        names = (n for n in walk(node) if isinstance(n, ast.Name))
        local = {n.id for n in names if isinstance(n.ctx, ast.Store)} | set(taken)
        self.visit(node.args)
        rows = _rows(node)
        held = {name: set(map(self._key, self._names(row))) for name, row in rows.items()}
        self._scopes.append((id(node), local))
        for name in taken:
            self._values[id(node), name].add((rows.get(name), True))
            self._relate((id(node), name), held.get(name, set()))

        def read() -> None:
            for name in taken:
                self._forget((id(node), name))
            self._visit_all(node.body if isinstance(node, ast.FunctionDef) else [node.body])

        self._repeat(read, times=1 if is_test(node) else 2)
        self._scopes.pop()

    def _visit_comprehension(self, node: _Comprehension) -> None:
        """Visit all but what it runs over first."""
        first, *others = node.generators
        parts: list[ast.AST] = [first.target, *first.ifs]
        for each in others:
            parts += [each.iter, each.target, *each.ifs]
        for each in node.generators:
            self._bind(each.target, each.iter, are_parts=True)
        parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._repeat(lambda: self._visit_all(parts))

    def _bind(self, target: ast.AST, value: ast.expr | None, *, are_parts: bool) -> None:
        """Note what a name's value is, or is a part of."""
        held = set(map(self._key, self._names(value))) if value else set()
        for each in walk(target):
            if isinstance(each, ast.Name):
                key = self._key(each.id)
                self._values[key].add((value, are_parts))
                self._relate(key, held)
                if not are_parts:
                    for other in held:
                        self._relate(other, {key})

    def _relate(self, part: Key, wholes: set[Key]) -> None:
        self._wholes[part] |= wholes
        for whole in wholes:
            self._parts[whole].add(part)

    def _names(self, node: ast.AST) -> Iterator[str]:
        """Names whose values an expression may hold: not what calls make of them."""
        if isinstance(node, ast.Name):
            yield node.id
        if not is_data(node) and not self._is_new(node) and not self._is_call(node):
            for each in ast.iter_child_nodes(node):
                yield from self._names(each)

    def _relatives(self, key: Key) -> tuple[bool, set[Key]]:
        """Two things: if a name's values cannot change, and the name with its wholes and parts."""
        if key not in self._told:
            found = {key}
            for links in (self._wholes, self._parts):
                waiting = {key}
                while waiting:
                    waiting = set[Key]().union(*(links[each] for each in waiting)) - found
                    found |= waiting
            values = self._values.get(key, {(None, False)})
            cannot_change = all(
                value is not None and self._is_plain(value, are_parts, frozenset({key}))
                for value, are_parts in values
            )
            self._told[key] = cannot_change, found
        return self._told[key]

    def _is_plain(self, node: ast.expr, of_parts: bool, known: frozenset[Key]) -> bool:
        """True if a value, or each of its parts, cannot change: numbers, texts and the like."""
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


def _rows(node: ast.FunctionDef | ast.Lambda) -> dict[str, ast.expr]:
    """The rows that ``parametrize`` gives to each parameter."""
    found = {}
    for each in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
        if isinstance(each, ast.Call) and len(each.args) > 1:
            names = [n.strip() for n in str(getattr(each.args[0], "value", "")).split(",")]
            found.update(dict.fromkeys(names, each.args[1]))
    return found
