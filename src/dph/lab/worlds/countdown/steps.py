"""One step of a derivation: two numbers and an operator make a third."""

import re
from dataclasses import dataclass
from dph.records import Problem


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


# The style of an answer, for measuring only: its operators in order.

def operator_order(response: str) -> str:
    """The operators of a derivation in the order of its steps, right or wrong.

    >>> operator_order("7 - 5 = 2 , 2 * 3 = 7"), operator_order("7 - 5")
    ('-*', 'other')
    """
    steps = [read_step(text) for text in response.strip(" ").split(AND)]
    known = [step.operator for step in steps if step is not None]
    return "".join(known) if len(known) == len(steps) else "other"


# When two answers to a puzzle are the same answer: when they take the same steps.
#
# The prompt says what to reach, so an answer that reaches it is known to be right without a
# label. Agreement between answers says nothing about that; it is defined so that methods which
# need it run.

def same_steps(response: str, problem: Problem) -> str | None:  # noqa: ARG001
    """The derivation in one spelling; None for a text that is not one.

    The order of the steps counts, as does the order of the two numbers of a step.
    """
    steps = [read_step(written) for written in response.strip(" ").split(AND)]
    if not steps or None in steps:
        return None
    return AND.join(
        f"{step.first} {step.operator} {step.second} = {step.result}" for step in steps if step
    )
