"""One step of a derivation: two numbers and an operator make a third."""

import re
from dataclasses import dataclass

OPERATORS = ("+", "-", "*", "/")
LARGEST = 99
"""Every number on the way is a whole number from 1 to this."""
AND = " , "
"""What stands between the steps of a derivation."""
LONGEST_STEP = len("99 - 98 = 99")

# No \d, which takes the digits of every script; no sign, no leading zero.
_NUMBER = "([1-9][0-9]?)"
_STEP = re.compile(rf"{_NUMBER} ([-+*/]) {_NUMBER} = {_NUMBER}")


@dataclass(frozen=True, slots=True)
class Step:
    """What a step says, true or not."""

    first: int
    operator: str
    second: int
    result: int


def read_step(text: str) -> Step | None:
    """The step that a text is; None where it is not written like one.

    >>> read_step("7 - 5 = 2")
    Step(first=7, operator='-', second=5, result=2)
    >>> read_step("7 - 5 = 02") is None
    True
    """
    found = _STEP.fullmatch(text)
    if found is None:
        return None
    first, operator, second, result = found.groups()
    return Step(int(first), operator, int(second), int(result))


def result_of(first: int, operator: str, second: int) -> int | None:
    """What a step gives; None where that is no whole number from 1 to ``LARGEST``.

    >>> result_of(7, "-", 5), result_of(5, "-", 7), result_of(8, "/", 3)
    (2, None, None)

    Raises:
        ValueError: the operator is none of ``OPERATORS``.
    """
    if operator == "+":
        value = first + second
    elif operator == "-":
        value = first - second
    elif operator == "*":
        value = first * second
    elif operator == "/":
        if second == 0 or first % second:
            return None
        value = first // second
    else:
        raise ValueError(f"an operator is one of {' '.join(OPERATORS)}, got {operator!r}")
    return value if 1 <= value <= LARGEST else None
