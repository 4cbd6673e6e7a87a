"""The Countdown world: sets of puzzles drawn from one seed, no puzzle in two of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

from dph._base.files.rows import read_rows
from dph.errors import SettingsError
from dph.records import Problem
from lab.worlds.countdown.kind import CountdownSizes
from lab.worlds.countdown.verifier import AND, LARGEST, OPERATORS, result_of
from lab.worlds.world import PARTS, UNLABELLED, PlacedWorld

# Puzzles, drawn by walking: random legal steps lead from the numbers to the target.


Key = tuple[tuple[int, ...], int]
"""A puzzle whatever the order of its numbers: the sorted numbers, and the target."""
TRIES = 100_000
"""So many draws without a new puzzle mean that there is none left."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """Numbers, each to be used once, and what they should make."""

    numbers: tuple[int, ...]
    target: int

    @property
    def prompt(self) -> str:
        """Prompt of the puzzle, as the model sees it: ``3 7 5 2 : 24 ->``."""
        return f"{' '.join(map(str, self.numbers))} : {self.target} ->"

    @property
    def key(self) -> Key:
        """The same for puzzles that differ only in the order of their numbers."""
        return tuple(sorted(self.numbers)), self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class PuzzleDomain:
    """Range of puzzles: number of numbers, their maximum, and the largest target."""

    count: int
    largest_number: int
    largest_target: int = LARGEST


TRAINED = PuzzleDomain(count=4, largest_number=9, largest_target=30)
"""Puzzles that RL trains on."""
OTHERS = PuzzleDomain(count=3, largest_number=20)
"""In the base model's training, never in RL's."""


def parse_prompt(prompt: str) -> Puzzle:
    """The puzzle of a prompt of this world.

    >>> parse_prompt("3 7 5 2 : 24 ->")
    Puzzle(numbers=(3, 7, 5, 2), target=24)
    """
    numbers, _, rest = prompt.partition(" : ")
    return Puzzle(tuple(map(int, numbers.split())), int(rest.removesuffix(" ->")))


def walk(numbers: Sequence[int], rng: Random) -> tuple[str, int]:
    """A blind derivation and where it ends: each step is any legal one, all equally likely.

    There always is one: of two numbers up to ``LARGEST`` one can be taken from the other, or
    divided by it if they are equal.
    """
    left, steps = list(numbers), []
    while len(left) > 1:
        i, j = rng.sample(range(len(left)), 2)
        first, operator, second = left[i], rng.choice(OPERATORS), left[j]
        value = result_of(first, operator, second)
        if value is None:
            continue
        steps.append(f"{first} {operator} {second} = {value}")
        left = [number for k, number in enumerate(left) if k not in (i, j)] + [value]
    return AND.join(steps), left[0]


def draw_puzzle(domain: PuzzleDomain, rng: Random) -> tuple[Puzzle, str]:
    """A puzzle of a domain and the walk that made it, which is one of its answers."""
    while True:
        numbers = tuple(rng.randint(1, domain.largest_number) for _ in range(domain.count))
        derivation, end = walk(numbers, rng)
        if end <= domain.largest_target:
            return Puzzle(numbers, end), derivation


def draw_puzzles(domain: PuzzleDomain, count: int, rng: Random, taken: set[Key]) -> list[Puzzle]:
    """New puzzles, none of them in ``taken``, to which they are added."""
    drawn: list[Puzzle] = []
    failures = 0
    while len(drawn) < count:
        puzzle, _ = draw_puzzle(domain, rng)
        if puzzle.key in taken:
            failures += 1
            if failures == TRIES:
                raise SettingsError(
                    f"after {len(drawn)} of {count} puzzles of {domain} no new puzzle was found in "
                    f"{TRIES} draws; ask for fewer"
                )
            continue
        failures = 0
        taken.add(puzzle.key)
        drawn.append(puzzle)
    return drawn


# Every derivation, by enumeration: where a blind walk ends, and how many ways lead there.
#
# For measuring and for tests: no world is made with it.


@dataclass(frozen=True, slots=True)
class Ways:
    """Number of ways to reach a number."""

    probability: float
    """That a blind walk (``puzzles.walk``) ends there."""
    derivations: int
    """Different texts that end there. Equal numbers are one and the same in a text."""


def solutions(puzzle: Puzzle) -> Ways:
    """Ways to reach a puzzle's target; no way at all is ``Ways(0, 0)``."""
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


SCHEMA = 1
SETS: Mapping[str, PuzzleDomain] = {"in_domain": TRAINED, "cross_domain": OTHERS, "train": TRAINED}
"""The sets whose answers are graded, in the order in which they are drawn."""


@dataclass(frozen=True, slots=True)
class CountdownWorld(PlacedWorld):
    """A world whose prompts are puzzles."""

    def puzzles(self, name: str) -> list[Puzzle]:
        """The puzzles of a set, read from its prompts."""
        return [parse_prompt(row["prompt"]) for _, row in read_rows(self.problems_path(name))]


def build_world(
    directory: Path, *, seed: int, sizes: CountdownSizes | None = None
) -> CountdownWorld:
    """Write the world into ``directory``; keep it if it is already there and whole.

    Leaves ``train.jsonl``, ``in_domain.jsonl``, ``cross_domain.jsonl``, ``unlabelled.jsonl`` and
    ``world.json`` (seed, sizes, hashes), which is written last. The same seed and sizes give the
    same bytes.
    """
    sizes = sizes or CountdownSizes()
    world = CountdownWorld(directory, seed)
    made_from = {"task": "countdown", "schema": SCHEMA, "seed": seed, "sizes": asdict(sizes)}
    world.build(made_from, lambda: _draw_problems(seed, sizes))
    return world


def _draw_problems(seed: int, sizes: CountdownSizes) -> dict[str, list[Problem]]:
    """Draw each set from its own random stream; nothing is drawn twice."""
    taken: set[Key] = set()

    def draw(name: str, domain: PuzzleDomain, count: int) -> list[Puzzle]:
        return draw_puzzles(domain, count, Random(f"countdown world {seed}: {name}"), taken)

    counts = asdict(sizes)
    problems = {
        name: [
            _problem(f"{name}-{i:04d}", puzzle)
            for i, puzzle in enumerate(draw(name, domain, counts[name]))
        ]
        for name, domain in SETS.items()
    }
    problems[UNLABELLED] = [
        Problem(problem_id=f"{UNLABELLED}-{part}-{i:04d}", prompt=p.prompt, answer={"part": part})
        for part, domain in zip(PARTS, (TRAINED, OTHERS), strict=True)
        for i, p in enumerate(draw(f"{UNLABELLED} {part}", domain, sizes.unlabelled))
    ]
    return problems


def _problem(problem_id: str, puzzle: Puzzle) -> Problem:
    answer: dict[str, Any] = {"numbers": list(puzzle.numbers), "target": puzzle.target}
    return Problem(problem_id=problem_id, prompt=puzzle.prompt, answer=answer)
