"""Arguments that tests look at again: a program's changes of them stay in its process.

A call copies its arguments. A test that looks at one of them later would see it unchanged: it would
fail programs that should change it, and pass those that should not. So the tests' text has to show
that no argument is looked at, or given, again. What is let through: another part of the comparison
or call that the program's call stands in, which sees the arguments as they were before it; a name
that was assigned anew; a value that cannot change.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dph._processes.sandbox.checks import is_test, last_name

Key = tuple[int, str]
"""The function that a name belongs to, as the number of its node (0: none), and the name."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.While, *_COMPREHENSIONS, *_FUNCTIONS)
_BLOCKS = (*_LOOPS, ast.If, ast.With, ast.Try, ast.ExceptHandler)
_PLAIN = frozenset(
    {"len", "int", "float", "str", "bool", "abs", "round", "ord", "chr", "repr", "range", "hash"}
    | {"hex", "bin", "oct", "pow", "divmod", "bytes", "complex", "isinstance", "type", "format"}
    | {"Decimal", "Fraction", "date", "datetime", "timedelta", "join", "lower", "upper", "strip"}
    | {"replace", "randint", "random", "uniform", "randrange", "sqrt", "floor", "ceil", "all"}
    | {"any", "startswith", "endswith", "count", "index", "isclose", "title", "capitalize"}
)
"""Functions whose results cannot change, and hold nothing that can."""
_COPIES = _PLAIN | {"deepcopy", "print"}
_SAME_ELEMENTS = frozenset({"enumerate", "zip", "sorted", "list", "tuple", "reversed", "set"})
_CHANGES = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "add"}
    | {"discard", "setdefault", "popitem", "appendleft", "popleft", "rotate", "fill", "shuffle"}
    | {"heapify", "heappush", "heappop", "insort"}
)


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
) -> tuple[str, str]:
    """Why tests would see what a call changed, and the name of what they see; two '' if not.

    Args:
        tree: all tests.
        is_call: whether a node is a call of the program.
        functions: names that are no variables.
    """
    events = _Events(is_call, functions)
    events.visit(tree)
    for place, event in enumerate(events.found):
        if event.kind == "give" and not events.cannot_change(event.key):
            related = events.related(event.key)
            others = ((n, e) for n, e in enumerate(events.found) if e.key in related)
            if events.is_given_again(place) or any(events.sees(place, *each) for each in others):
                return "an argument that is looked at again", event.key[1]
    return "a returned value that the tests change", events.changed_value()


class _Events:
    """The names of a text in the order in which they are evaluated."""

    def __init__(self, is_call: Callable[[ast.AST], bool], functions: frozenset[str]) -> None:
        self._is_call = is_call
        self._functions = functions
        self._path: list[ast.AST] = []
        self._scopes: list[tuple[int, frozenset[str]]] = []
        self._gives = False
        self.found: list[_Event] = []
        self._values: dict[Key, list[tuple[ast.expr | None, bool]]] = {}
        self._parts: set[tuple[Key, Key]] = set()
        self._changes: list[tuple[int, Key, tuple[ast.AST, ...]]] = []
        self._calls: list[tuple[int, tuple[ast.AST, ...]]] = []
        self._fresh: set[Key] = set()

    def visit(self, node: ast.AST) -> None:
        """Note the names in a node."""
        if isinstance(node, ast.Constant | ast.Raise):  # a failing test may show what it likes
            return
        if isinstance(node, ast.Name):
            if node.id not in self._functions:
                self._note(node)
        elif isinstance(node, ast.Assert):
            self._inside(node, [node.test])
        elif isinstance(node, ast.Call):
            self._visit_call(node)
        elif isinstance(node, _FUNCTIONS):
            self._visit_function(node)
        elif isinstance(node, ast.For | ast.comprehension):
            self._visit_loop(node)
        elif isinstance(node, _COMPREHENSIONS):
            self._visit_comprehension(node)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value:
            self._visit_assignment(node)
        else:
            self._inside(node, ast.iter_child_nodes(node))

    def _inside(self, node: ast.AST, children: Iterator[ast.AST] | Sequence[ast.AST]) -> None:
        self._path.append(node)
        for child in children:
            self.visit(child)
        self._path.pop()

    def _note(self, node: ast.Name) -> None:
        kind = "bind" if isinstance(node.ctx, ast.Store) else "give" if self._gives else "use"
        holder = self._path[-1] if self._path else None
        indexed = isinstance(holder, ast.Subscript) and isinstance(holder.slice, ast.Constant)
        part = holder.slice.value if indexed else None  # type: ignore[union-attr,attr-defined]
        if indexed and not isinstance(holder.ctx, ast.Load):  # type: ignore[union-attr]
            self._change(self._key(node.id))
        self.found.append(_Event(kind, self._key(node.id), tuple(self._path), part))

    def _change(self, key: Key) -> None:
        self._changes.append((len(self.found), key, tuple(self._path)))

    def _key(self, name: str) -> Key:
        return next(((n, name) for n, local in reversed(self._scopes) if name in local), (0, name))

    def _visit_call(self, node: ast.Call) -> None:
        function, gives = node.func, self._gives
        name = last_name(function)
        if isinstance(function, ast.Attribute):
            base = function.value
            changed = [base, *node.args[:1]] if name in _CHANGES else []
            for each in changed:
                if isinstance(each, ast.Name):
                    self._change(self._key(each.id))
            self._inside(node, [function])
        if name == "print":
            return
        arguments = [*node.args, *(each.value for each in node.keywords)]
        if self._is_call(node):
            self._gives = True
        elif name in _COPIES and name not in self._functions:
            self._gives = False
        self._inside(node, arguments)
        self._gives = gives
        if self._is_call(node):
            self._calls.append((len(self.found), tuple(self._path)))

    def _visit_function(self, node: ast.FunctionDef | ast.Lambda) -> None:
        body = node.body if isinstance(node.body, list) else [node.body]
        taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        taken += [each for each in (node.args.vararg, node.args.kwarg) if each]
        inside = [n for each in body for n in ast.walk(each) if isinstance(n, ast.Name)]
        local = {each.arg for each in taken}
        local |= {each.id for each in inside if isinstance(each.ctx, ast.Store)}
        self._inside(node, [each for each in (*node.args.defaults, *node.args.kw_defaults) if each])
        self._scopes.append((id(node), frozenset(local)))
        rows = _parameters(node)
        for each in taken:
            key = (id(node), each.arg)
            if each.arg in rows:
                self._parts |= {(key, self._key(name)) for name in self._names(rows[each.arg])}
            self.found.append(_Event("bind", key, (*self._path, node)))
            self._values.setdefault(key, []).append((rows.get(each.arg), True))
        self._inside(node, body)
        self._scopes.pop()

    def _visit_loop(self, node: ast.For | ast.comprehension) -> None:
        self.visit(node.iter)
        rest = [*node.body, *node.orelse] if isinstance(node, ast.For) else node.ifs
        self._inside(node, [node.target])
        self._bind(node.target, node.iter, are_parts=True)
        self._inside(node, rest)

    def _visit_comprehension(self, node: ast.AST) -> None:
        first, *others = node.generators  # type: ignore[attr-defined]
        self.visit(first.iter)
        names = ("key", "value") if isinstance(node, ast.DictComp) else ("elt",)
        self._path.append(node)
        self.visit(first.target)
        self._bind(first.target, first.iter, are_parts=True)
        for each in (*first.ifs, *others, *(getattr(node, name) for name in names)):
            self.visit(each)
        self._path.pop()

    def _visit_assignment(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        if value is None:
            return
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            key = self._key(node.target.id)
            self.found.append(_Event("use", key, (*self._path, node)))
            if not self._is_plain(value):
                self._change(key)
        self._inside(node, [value, *targets])
        for target in targets:
            self._bind(target, value, are_parts=not isinstance(target, ast.Name))

    def _bind(self, target: ast.AST, value: ast.expr, *, are_parts: bool) -> None:
        """Note what a name's value is, or is a part of, and what it may be looked at by."""
        for part, source, is_part in _pairs(target, value, are_parts):
            is_fresh = any(map(self._is_call, ast.walk(source)))
            held = set() if self._is_plain(source) else set(map(self._key, self._names(source)))
            for each in ast.walk(part):
                if isinstance(each, ast.Name):
                    key = self._key(each.id)
                    self._values.setdefault(key, []).append((source, is_part))
                    self._parts |= {(key, other) for other in held}
                    if not is_part:
                        self._parts |= {(other, key) for other in held}
                    if is_fresh:
                        self._fresh.add(key)

    def _names(self, node: ast.AST) -> Iterator[str]:
        """Names whose values an expression may hold: not what calls make of them."""
        if isinstance(node, ast.Name):
            yield node.id
        is_new = isinstance(node, ast.Call) and last_name(node.func) in _COPIES - self._functions
        if not is_new and not self._is_call(node):
            for each in ast.iter_child_nodes(node):
                yield from self._names(each)

    # What cannot change.

    def cannot_change(self, key: Key, known: frozenset[Key] = frozenset()) -> bool:
        """Whether all values of a name are numbers, texts and the like."""
        values = self._values.get(key, [(None, False)])
        return key in known or all(
            value is not None
            and (self._has_plain if are_parts else self._is_plain)(value, known | {key})
            for value, are_parts in values
        )

    def _is_plain(self, node: ast.expr, known: frozenset[Key] = frozenset()) -> bool:
        if isinstance(node, ast.Name):
            return any(
                key[1] == node.id and self.cannot_change(key, known)
                for key in (self._key(node.id), *known)
            )
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            return name in _PLAIN and name not in self._functions
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.Compare):
            return True
        parts: list[ast.expr] = []
        if isinstance(node, ast.UnaryOp):
            parts = [node.operand]
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.BoolOp):
            parts = node.values
        elif isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.Tuple):
            parts = node.elts
        elif isinstance(node, ast.Subscript):
            parts = [node.value]
        return bool(parts) and all(self._is_plain(each, known) for each in parts)

    def _has_plain(self, node: ast.expr, known: frozenset[Key] = frozenset()) -> bool:
        """Whether no element of a container can change."""
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return all(self._is_plain(each, known) for each in node.elts)
        if isinstance(node, ast.Dict):
            return all(each and self._is_plain(each, known) for each in node.values)
        if isinstance(node, ast.Name):
            values = self._values.get(self._key(node.id), [(None, False)])
            return all(
                each is not None and not are_parts and self._has_plain(each, known)
                for each, are_parts in values
            )
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if name in ("items", "keys", "values") and isinstance(node.func, ast.Attribute):
                return self._has_plain(node.func.value, known)
            if name in _SAME_ELEMENTS:
                return all(self._has_plain(each, known) for each in node.args)
        return self._is_plain(node, known)

    # What is looked at again.

    def related(self, key: Key) -> set[Key]:
        """A name, those of what it is a part of, and those of its parts."""
        found = set()
        for up, down in ((0, 1), (1, 0)):
            waiting = [key]
            while waiting:
                one = waiting.pop()
                found.add(one)
                waiting += [p[down] for p in self._parts if p[up] == one and p[down] not in found]
        return found

    def is_given_again(self, place: int) -> bool:
        """Whether a loop gives an argument twice."""
        path = self.found[place].path
        loops = [each for each in path if isinstance(each, _LOOPS) and not is_test(each)]
        return any(not self._is_bound(place, loop) for loop in loops)

    def sees(self, place: int, other: int, event: _Event) -> bool:
        """Whether another place sees what the call at ``place`` did to its argument."""
        given = self.found[place]
        if place == other or event.kind == "bind" or not self._may_be_one(given, event):
            return False
        common = [a for a, b in zip(given.path, event.path, strict=False) if a is b]
        nearest: ast.AST = common[-1] if common else given.path[0]
        is_beside = event.kind == "use" or self._is_call(nearest)
        if isinstance(nearest, ast.Compare | ast.Call) and is_beside:
            return False
        function = _function(event.path)
        if function is not _function(given.path) and function is not None:
            return True
        if other > place and not self._is_bound(other, None, after=place):
            return True
        loops = [each for each in common if isinstance(each, _LOOPS) and not is_test(each)]
        return any(not self._is_bound(other, loop) for loop in loops)

    @staticmethod
    def _may_be_one(one: _Event, other: _Event) -> bool:
        parts = (one.part, other.part)
        return one.key != other.key or None in parts or one.part == other.part

    def _is_bound(self, place: int, loop: ast.AST | None, *, after: int = -1) -> bool:
        """Whether a name is always assigned before it is used: in a loop, or after a place."""
        event = self.found[place]
        for bound in self.found[after + 1 : place]:
            if bound.kind != "bind" or bound.key != event.key:
                continue
            path = list(bound.path)
            while path and not isinstance(path[-1], _BLOCKS):
                path.pop()
            around = event.path[: len(path)]
            is_around = all(a is b for a, b in zip(path, around, strict=False))
            if len(around) == len(path) and is_around and (loop is None or loop in path):
                return True
        return False

    def changed_value(self) -> str:
        """A name whose value the program returned and the tests change before another call."""
        for place, key, path in self._changes:
            loops = [each for each in path if isinstance(each, _LOOPS) and not is_test(each)]
            for called, around in self._calls:
                is_again = called > place or any(each in around for each in loops)
                if is_again and self.related(key) & self._fresh:
                    return key[1]
        return ""


def _pairs(
    target: ast.AST, value: ast.expr, are_parts: bool
) -> Iterator[tuple[ast.AST, ast.expr, bool]]:
    """What is assigned to what: each of a tuple, each of ``enumerate``, ``zip`` and ``items``."""
    targets = target.elts if isinstance(target, ast.Tuple) else []
    name = last_name(value.func) if isinstance(value, ast.Call) else ""
    number: ast.expr = ast.Constant(0)
    if isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
        for each, source in zip(targets, value.elts, strict=True):
            yield from _pairs(each, source, False)
    elif isinstance(value, ast.Call) and len(targets) == len(value.args) and name == "zip":
        for each, source in zip(targets, value.args, strict=True):
            yield from _pairs(each, source, True)
    elif isinstance(value, ast.Call) and len(targets) == 2 and name in ("enumerate", "items"):
        yield targets[0], number, False
        yield targets[1], value.args[0] if name == "enumerate" else value, True
    else:
        yield target, value, are_parts


def _function(path: tuple[ast.AST, ...]) -> ast.AST | None:
    return next((each for each in path if isinstance(each, ast.FunctionDef)), None)


def _parameters(node: ast.FunctionDef | ast.Lambda) -> dict[str, ast.expr]:
    """The rows that ``parametrize`` gives to each parameter."""
    found = {}
    for each in getattr(node, "decorator_list", ()):
        if isinstance(each, ast.Call) and len(each.args) > 1:
            names = [n.strip() for n in str(getattr(each.args[0], "value", "")).split(",")]
            found.update(dict.fromkeys(names, each.args[1]))
    return found
