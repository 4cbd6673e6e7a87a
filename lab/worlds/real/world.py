"""The files of a real world: questions of three kinds, drawn from one seed, none of them twice.

One kind is trained by RL, one is tested and never trained (across), and one is neither.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

from dph.errors import SettingsError
from dph.records import Problem
from lab.worlds.real.kind import SETS, RealSizes
from lab.worlds.world import UNLABELLED, PlacedWorld, without_constants

SCHEMA = 1
PARTS = ("across", "neither")
"""Of the unlabelled prompts: of the kind that is tested across, and of the third kind."""
Draw = Callable[[Random], tuple[str, str]]
"""A question and its answer."""


def number(rng: Random, digits: int) -> int:
    """A number of that many digits."""
    return rng.randint(10 ** (digits - 1), 10**digits - 1)


def sum_of(*digits: int) -> Draw:
    """Sums of numbers with that many digits each."""

    def draw(rng: Random) -> tuple[str, str]:
        terms = [number(rng, n) for n in digits]
        return " + ".join(map(str, terms)), str(sum(terms))

    return draw


def difference_of(first: int, second: int) -> Draw:
    """Differences of two numbers with that many digits, none below 0."""

    def draw(rng: Random) -> tuple[str, str]:
        terms = sorted((number(rng, first), number(rng, second)), reverse=True)
        return f"{terms[0]} - {terms[1]}", str(terms[0] - terms[1])

    return draw


KINDS: Mapping[str, Draw] = {
    "trained": sum_of(2, 2),
    "across": sum_of(2, 1),
    "neither": difference_of(2, 2),
}


def build_world(directory: Path, *, seed: int, sizes: RealSizes | None = None) -> PlacedWorld:
    """Write the world into ``directory``; keep it if it is already there and whole.

    Leaves a ``.jsonl`` file a set and ``world.json`` (seed, sizes, near-duplicates of test
    questions, hashes), which is written last. The same seed and sizes give the same bytes.
    """
    sizes = sizes or RealSizes()
    world = PlacedWorld(directory, seed)
    world.build(
        {"task": "real", "schema": SCHEMA, "seed": seed, "sizes": asdict(sizes)},
        lambda: _draw_sets(seed, sizes),
        lambda problems: {"near_duplicates": near_duplicates(problems)},
    )
    return world


def near_duplicates(problems: Mapping[str, Sequence[Problem]]) -> dict[str, int]:
    """Number of prompts that equal a test question but for constants: of train and each part."""
    tests = {without_constants(str(p.prompt)) for name in SETS for p in problems[name]}
    found = Counter({"train": 0, **dict.fromkeys(PARTS, 0)})
    for problem in (*problems["train"], *problems[UNLABELLED]):
        found[problem.answer.get("part", "train")] += (
            without_constants(str(problem.prompt)) in tests
        )
    return dict(found)


def _draw_sets(seed: int, sizes: RealSizes) -> dict[str, list[Problem]]:
    """Every set; those of one kind are parts of one draw, so that no question is in two."""
    many = asdict(sizes)
    wanted = {
        "trained": {name: many[name] for name in ("shots", "in_domain", "train")},
        "across": {"cross_domain": many["cross_domain"], PARTS[0]: many[UNLABELLED]},
        "neither": {PARTS[1]: many[UNLABELLED]},
    }
    found: dict[str, list[Problem]] = {}
    taken: set[str] = set()
    for kind, counts in wanted.items():
        drawn = iter(_questions(seed, kind, sum(counts.values()), taken))
        for of_set, count in counts.items():
            found[of_set] = [
                Problem(
                    problem_id=f"{of_set}-{i:04d}",
                    prompt=prompt,
                    answer={"answer": answer, "shown": answer},
                )
                for i, (prompt, answer) in zip(range(count), drawn, strict=False)
            ]
    unlabelled = [
        Problem(problem_id=f"{UNLABELLED}-{p.problem_id}", prompt=p.prompt, answer={"part": part})
        for part in PARTS
        for p in found.pop(part)
    ]
    return {**found, UNLABELLED: unlabelled}


def _questions(seed: int, kind: str, count: int, taken: set[str]) -> list[tuple[str, str]]:
    """``count`` different questions of a kind, none ``taken``, from the kind's own stream."""
    rng = Random(f"real world sums {seed}: {kind}")
    found: list[tuple[str, str]] = []
    for _ in range(20 * count + 1000):
        prompt, answer = KINDS[kind](rng)
        if prompt in taken:
            continue
        taken.add(prompt)
        found.append((prompt, answer))
        if len(found) == count:
            return found
    raise SettingsError(
        f"there are {len(found)} different questions of the kind {kind!r}, {count} are needed: ask "
        "for fewer problems"
    )
