"""Worth of an answer: every step true, every number used once, the target at the end.

A row of the data has the fields ``numbers`` (a list) and ``target``. Any derivation will do. An
answer is only read, never evaluated, and one that is longer than any derivation is not even read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from dph.records import Outcome, Problem, Verdict

# One step of a derivation: two numbers and an operator make a third.

OPERATORS = ("+", "-", "*", "/")
LARGEST = 99
"""Every number on the way is a whole number from 1 to this."""
AND = " , "
"""Separator of the steps of a derivation."""
LONGEST_STEP = len("99 - 98 = 99")

# No \d, which takes the digits of every script; no sign, no leading zero.
_NUMBER = "([1-9][0-9]?)"
_STEP = re.compile(rf"{_NUMBER} ([-+*/]) {_NUMBER} = {_NUMBER}")


@dataclass(frozen=True, slots=True)
class CountdownStep:
    """Claim of a step, true or not."""

    first: int
    operator: str
    second: int
    result: int


def read_step(text: str) -> CountdownStep | None:
    """The step that a text is; None where it is not written like one.

    >>> read_step("7 - 5 = 2")
    CountdownStep(first=7, operator='-', second=5, result=2)
    >>> read_step("7 - 5 = 02") is None
    True
    """
    found = _STEP.fullmatch(text)
    if found is None:
        return None
    first, operator, second, result = found.groups()
    return CountdownStep(int(first), operator, int(second), int(result))


def result_of(first: int, operator: str, second: int) -> int | None:
    """Result of a step; None where that is not a whole number from 1 to ``LARGEST``.

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


_SHOWN = 40
"""Characters of a model's text that a reason repeats."""


def grade(response: str, problem: Problem) -> Verdict:
    """Read the steps one after another; the first that does not hold decides.

    CORRECT, or with a reason in words: NO_ANSWER where nothing is written, INVALID where a step is
    not written like one, WRONG where it is but does not hold, BAD_GOLD where the problem has no
    numbers and target from 1 to 99.
    """
    numbers, target = problem.answer.get("numbers"), problem.answer.get("target")
    if not _are_numbers(numbers) or len(numbers) < 2 or not _is_number(target):
        return _verdict(
            Outcome.BAD_GOLD,
            f"a puzzle has two numbers or more and a target, all from 1 to {LARGEST}, "
            f"got numbers={_shown(numbers)}, target={_shown(target)}",
        )
    text = response.strip(" ")
    if not text:
        return _verdict(Outcome.NO_ANSWER, "nothing is written")
    most = len(numbers) - 1
    longest = most * LONGEST_STEP + (most - 1) * len(AND)
    if len(text) > longest:
        return _verdict(
            Outcome.INVALID,
            f"{len(text)} characters; a derivation from {len(numbers)} numbers has at most "
            f"{longest}",
        )
    return _follow(text, list(numbers), target)


def _follow(text: str, left: list[int], target: int) -> Verdict:
    """Take the steps; ``left`` are the numbers that can still be used."""
    for place, written in enumerate(text.split(AND), start=1):
        step = read_step(written)
        if step is None:
            return _verdict(
                Outcome.INVALID, f"step {place} must look like 7 - 5 = 2: {_shown(written)}"
            )
        for number in (step.first, step.second):
            if number not in left:
                there = " ".join(map(str, left))
                return _verdict(
                    Outcome.WRONG,
                    f"step {place} uses {number}, which is not available; left: {there or 'none'}",
                )
            left.remove(number)
        value = result_of(step.first, step.operator, step.second)
        if value != step.result:
            true = f"no whole number from 1 to {LARGEST}" if value is None else value
            asked = f"{step.first} {step.operator} {step.second}"
            return _verdict(
                Outcome.WRONG, f"step {place} is false: {asked} is {true}, not {step.result}"
            )
        left.append(value)
    if len(left) > 1:
        return _verdict(
            Outcome.WRONG, f"not every number is used; left: {' '.join(map(str, left))}"
        )
    if left != [target]:
        return _verdict(Outcome.WRONG, f"ends at {left[0]}, not at {target}")
    return Verdict(outcome=Outcome.CORRECT, reward=1.0)


def _are_numbers(value: Any) -> TypeGuard[Sequence[int]]:
    return isinstance(value, list | tuple) and all(map(_is_number, value))


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _verdict(outcome: Outcome, reason: str) -> Verdict:
    return Verdict(outcome=outcome, reward=0.0, reason=reason)
