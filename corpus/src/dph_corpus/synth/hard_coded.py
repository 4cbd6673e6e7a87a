"""Programs that know their tests: their answers to other inputs, and the constants they spell out.

Two signs. The tests want different values, but on inputs close to theirs the program answers
all alike (a fallback, an error). Or the program spells out the inputs and the values of its tests.
"""

import ast
import copy
import json
from collections.abc import Iterator, Sequence
from typing import TypeVar

from dph_corpus.synth.draft import Draft, parsed

# Programs that are wrong in one place: tests that a wrong program passes show nothing.
#
# The changes are those of mutation testing (DeMillo, Lipton and Sayward 1978): a comparison, an
# operator, a constant, a condition or a returned value becomes another one. Some mutants mean the
# same as the program, so not every one has to fail.

_PAIRS: tuple[tuple[type[ast.cmpop], type[ast.cmpop]], ...] = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq)),
    *((ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
)
_COMPARISONS = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = dict(
    (
        *((ast.Add, ast.Sub), (ast.Sub, ast.Add), (ast.Mult, ast.Add), (ast.Div, ast.Mult)),
        *((ast.FloorDiv, ast.Mult), (ast.Mod, ast.FloorDiv), (ast.Pow, ast.Mult)),
        *((ast.BitAnd, ast.BitOr), (ast.BitOr, ast.BitAnd), (ast.BitXor, ast.BitAnd)),
        *((ast.LShift, ast.RShift), (ast.RShift, ast.LShift)),
    )
)
MOST_TRIED = 4
"""Places that are changed for each mutant that is wanted: each costs a copy of everything."""
Item = TypeVar("Item")


def mutants(program: str, *, most: int) -> list[str]:
    r"""At most ``most`` programs that differ from ``program`` in one place, spread over all of it.

    >>> mutants("def f(a):\n    return a + 1", most=9)
    ['def f(a):\n    return None', 'def f(a):\n    return a - 1', 'def f(a):\n    return a + 2']
    """
    tree = ast.parse(program)
    original = ast.unparse(tree)
    doc_strings, scratch = _doc_strings(tree), list(ast.walk(copy.deepcopy(tree)))
    places = [p for p, node in enumerate(scratch) if p not in doc_strings and _change(node)]
    found: dict[str, None] = {}
    for place in spread(places, MOST_TRIED * most):
        changed = copy.deepcopy(tree)
        _change(list(ast.walk(changed))[place])
        text = ast.unparse(ast.fix_missing_locations(changed))
        if text != original:
            found.setdefault(text)
    return spread(list(found), most)


def spread(found: list[Item], most: int) -> list[Item]:
    """At most ``most`` of them, at equal distances.

    >>> spread(["a", "b", "c", "d"], 2)
    ['a', 'c']
    """
    if len(found) <= most:
        return found
    return [found[place * len(found) // most] for place in range(most)]


def stubs(program: str, entry_point: str) -> list[str]:
    """Programs whose ``entry_point`` does no work: it returns None, or its first argument."""
    found = []
    for source in ("return None", "return {first}"):
        tree = ast.parse(program)
        function = next(
            node
            for node in reversed(tree.body)
            if isinstance(node, ast.FunctionDef) and node.name == entry_point
        )
        names = [*function.args.posonlyargs, *function.args.args]
        if names or "{first}" not in source:
            first = names[0].arg if names else ""
            function.body = ast.parse(f"def f():\n    {source.format(first=first)}").body[0].body  # type: ignore[attr-defined]
            found.append(ast.unparse(ast.fix_missing_locations(tree)))
    return found


def _doc_strings(tree: ast.Module) -> set[int]:
    """Nodes that are doc strings, by their place in a walk: changing them changes nothing."""
    strings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                strings.add(id(first.value))
    return {place for place, node in enumerate(ast.walk(tree)) if id(node) in strings}


def _change(node: ast.AST) -> bool:
    """Change a node in place; False if there is nothing to change."""
    match node:
        case ast.Compare(ops=[first, *_]) if type(first) in _COMPARISONS:
            node.ops[0] = _COMPARISONS[type(first)]()
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in _OPERATORS:
            node.op = _OPERATORS[type(operator)]()
        case ast.BoolOp(op=ast.And()):
            node.op = ast.Or()
        case ast.BoolOp(op=ast.Or()):
            node.op = ast.And()
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            if isinstance(node.op, ast.Not):
                node.operand = ast.UnaryOp(op=ast.Not(), operand=node.operand)
        case ast.Constant(value=bool() as value):
            node.value = not value
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1
        case ast.Constant(value=str() as value):
            node.value = f"{value}x"
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            node.value = ast.Constant(None)
        case _:
            return False
    return True


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


_Plain = bool | int | float | str
_PROBES = 12
_TRIVIAL = (None, True, False, 0, 1, 2, -1, "", 0.0, 1.0)


PROBED = "_answers_beside_the_tests"


def probe(draft: Draft) -> str | None:
    """The program with a function ``PROBED``; None where its tests have nothing near them.

    It calls the entry point with the tests' arguments, changed a little, and returns what comes
    back, as text, or the name of the error. Tests cannot: one that catches errors is refused.
    """
    calls = list(_calls(draft))
    if len({value for _, value in calls}) < 2:
        return None
    near = [text for call, _ in calls for text in _beside(call)]
    chosen = list(dict.fromkeys(near))[:: max(1, len(near) // _PROBES)]
    if not chosen:
        return None
    functions = ", ".join(f"lambda: {call}" for call in chosen[:_PROBES])
    return (
        f"{draft.program}\n"
        f"def {PROBED}():\n"
        "    seen = []\n"
        f"    for call in [{functions}]:\n"
        "        try:\n"
        "            seen.append(repr(call()))\n"
        "        except Exception as error:\n"
        "            seen.append(type(error).__name__)\n"
        "    return seen\n"
    )


def wanted_values(draft: Draft) -> int:
    """Number of different values that the tests compare calls with, as they are spelled."""
    return len({value for _, value in _calls(draft)})


def spells_out_its_tests(draft: Draft) -> bool:
    """Whether the program holds the inputs and the values of all of its tests as constants.

    Small numbers, empty texts and truth values count for neither: programs are full of them.
    """
    tree = parsed(draft.program)
    held = {_key(node) for node in ast.walk(tree) if isinstance(node, ast.Constant)} if tree else {}
    telling = 0
    for test in draft.tests:
        constants = {
            _key(node)
            for node in ast.walk(ast.parse(test))
            if isinstance(node, ast.Constant) and node.value not in _TRIVIAL
        }
        if constants and not constants <= set(held):
            return False
        telling += bool(constants)
    return telling * 2 > len(draft.tests)


def inputs_beside(draft: Draft) -> list[list[object]]:
    """The arguments of the tests' calls and of further calls, those that JSON can hold.

    Calls with keywords, and arguments that are no plain values, are left out.
    """
    found: dict[str, list[object]] = {}
    for call, _ in _calls(draft):
        for text in (ast.unparse(call), *_beside(call)):
            one = ast.parse(text, mode="eval").body
            if isinstance(one, ast.Call) and not one.keywords:
                try:
                    arguments = [ast.literal_eval(argument) for argument in one.args]
                    found[json.dumps(arguments)] = arguments
                except (ValueError, TypeError):  # not literal, or a set
                    continue
    return list(found.values())


def _calls(draft: Draft) -> Iterator[tuple[ast.Call, str]]:
    """The calls of tests of the form ``assert f(...) == value``, and the values."""
    for test in draft.tests:
        statement = ast.parse(test).body[0]
        if not isinstance(statement, ast.Assert):
            continue
        match statement.test:
            case ast.Compare(left=ast.Call() as call, ops=[ast.Eq() | ast.Is()], comparators=[v]):
                yield call, ast.unparse(v)
            case ast.Call() as call:
                yield call, "True"
            case ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call):
                yield call, "False"


def _beside(call: ast.Call) -> Iterator[str]:
    """The call with one of its constants changed."""
    for place, node in enumerate(ast.walk(call)):
        if isinstance(node, ast.Constant):
            for value in _near(node.value):
                changed = copy.deepcopy(call)
                other = list(ast.walk(changed))[place]
                assert isinstance(other, ast.Constant)
                other.value = value
                yield ast.unparse(changed)


def _near(value: object) -> Sequence[_Plain]:
    match value:
        case bool():
            return (not value,)
        case int() | float():
            return (value + 1, value + 7)
        case str():
            return (f"{value}a", value[1:] + "zz")
        case _:
            return ()


def _key(node: ast.Constant) -> tuple[str, object]:
    return type(node.value).__name__, node.value
