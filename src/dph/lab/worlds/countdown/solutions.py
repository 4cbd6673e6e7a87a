"""Every derivation, by enumeration: where a blind walk ends, and how many ways lead there.

For measuring and for tests: no world is made with it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations

from dph.lab.worlds.countdown.puzzles import Puzzle
from dph.lab.worlds.countdown.steps import OPERATORS, result_of


@dataclass(frozen=True, slots=True)
class Ways:
    """How a number is reached."""

    probability: float
    """That a blind walk (``puzzles.walk``) ends there."""
    derivations: int
    """Different texts that end there. Equal numbers are one and the same in a text."""


def solutions(puzzle: Puzzle) -> Ways:
    """How a puzzle's target is reached; no way at all is ``Ways(0, 0)``."""
    return ends(tuple(sorted(puzzle.numbers))).get(puzzle.target, Ways(0.0, 0))


@cache
def ends(numbers: tuple[int, ...]) -> Mapping[int, Ways]:
    """Every number that sorted ``numbers`` can be turned into.

    Computed as: a walk takes each legal step (ordered pair of places, operator) with the same
    probability; the ends of what a step leaves are weighted by it and added up.
    """
    if len(numbers) == 1:
        return {numbers[0]: Ways(1.0, 1)}
    steps: Counter[tuple[int, str, int, tuple[int, ...]]] = Counter()
    for i, j in permutations(range(len(numbers)), 2):
        for operator in OPERATORS:
            value = result_of(numbers[i], operator, numbers[j])
            if value is not None:
                rest = [number for k, number in enumerate(numbers) if k not in (i, j)]
                left = tuple(sorted([*rest, value]))
                steps[numbers[i], operator, numbers[j], left] += 1
    probability: Counter[int] = Counter()
    derivations: Counter[int] = Counter()
    for (*_, left), places in steps.items():
        for end, ways in ends(left).items():
            probability[end] += places * ways.probability  # type: ignore[assignment]
            derivations[end] += ways.derivations
    return {end: Ways(probability[end] / steps.total(), derivations[end]) for end in derivations}
