"""Programs that know their tests: what they answer beside them, and what they spell out.

Two signs. The tests want different values, but on inputs a little beside theirs the program answers
all alike (a fallback, an error). Or the program spells out the inputs and the values of its tests.
"""

import ast
import copy
import json
from collections.abc import Iterator, Sequence

from dph.corpus.synth.draft import Draft, parsed

_Plain = bool | int | float | str
_PROBES = 12
_TRIVIAL = (None, True, False, 0, 1, 2, -1, "", 0.0, 1.0)


def probe(draft: Draft) -> str | None:
    """A test that fails if the program answers alike beside its tests; None where none is possible.

    It calls the entry point with the tests' arguments, changed a little, and counts how many
    different things come back, errors included.
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
        "_seen = set()\n"
        f"for _call in [{functions}]:\n"
        "    try:\n"
        "        _seen.add(repr(_call()))\n"
        "    except Exception as _error:\n"
        "        _seen.add(type(_error).__name__)\n"
        "assert len(_seen) > 1"
    )


def wanted_values(draft: Draft) -> int:
    """How many different values the tests compare calls with, as they are spelled."""
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
    """The arguments of the tests' calls and of calls beside them, those that JSON can hold.

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
