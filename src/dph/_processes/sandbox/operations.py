"""What may be asked of a program's objects, and what its answers are checked by."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Protocol

SAY_TRUE = frozenset(
    {name for kind in (str, float) for name in dir(kind) if name.startswith("is")}
    | {"startswith", "endswith", "issubset", "issuperset", "isdisjoint", "equals"}
)
"""Methods of plain values that say whether something holds: nothing else may stand in for those."""
BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and_", "or_", "xor", "lshift", "rshift"),
)
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in (*BINARY, "lt", "le", "gt", "ge", "eq")},
    **{name: getattr(operator, name) for name in ("neg", "pos", "invert", "abs", "index")},
    **{name: getattr(operator, name) for name in ("contains", "setitem", "delitem", "truth")},
    **{f"i{name.rstrip('_')}": getattr(operator, f"i{name.rstrip('_')}") for name in BINARY},
    **{each.__name__: each for each in (int, float, complex, round, divmod)},
    **{each.__name__: each for each in (math.floor, math.ceil, math.trunc)},
}
"""What ``operate`` may ask for, as the program's side does it."""


def unlike(value: Any) -> list[Any]:
    """Other values of the type of a plain one: what equals them, too, equals anything."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float | complex):
        return [2 * value + 1, -value - 1]
    if isinstance(value, str):
        return [f"{value}{value} ", f"a{value}", "" if value else "b"]
    if isinstance(value, list):
        return [[*value, "", 0], [*value, *value, 1]]
    if isinstance(value, tuple):
        return [(*value, "", 0), (*value, *value, 1)]
    return []


class Asked(Protocol):
    """The side that asks the program (``remote``): ``classes`` it has, and its ``last`` call."""

    classes: Mapping[str, list[str]]
    last: str

    def ask(self, request: str, remote: Any, *arguments: Any) -> Any:
        """The value that a request gives."""

    def is_checking(self) -> bool:
        """Whether what the tests do now is to check something."""
