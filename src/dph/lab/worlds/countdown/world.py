"""The Countdown world: sets of puzzles drawn from one seed, no puzzle in two of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from dph._base.files.rows import read_rows
from dph.lab.worlds.countdown.kind import CountdownSizes
from dph.lab.worlds.countdown.puzzles import (
    OTHERS,
    TRAINED,
    Key,
    Puzzle,
    PuzzleDomain,
    draw_puzzles,
    parse_prompt,
)
from dph.lab.worlds.world import PARTS, UNLABELLED, PlacedWorld
from dph.records import Problem

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

    Raises:
        DataError: ``directory`` holds another world or cannot be written.
        SettingsError: there are not so many puzzles.
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
