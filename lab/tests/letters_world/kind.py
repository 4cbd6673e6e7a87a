"""A world of one's own, as small as one can be: say the last of three letters."""

from dataclasses import asdict, dataclass
from random import Random

from dph.records import Problem
from lab.worlds.world import PARTS, ByPath, PlacedWorld, WorldKind

LETTERS = ("a", "b", "c", "d", "e")
SETS = ("in_domain", "cross_domain")
OPTIMIZER = {"learning_rate": 3e-4}


@dataclass(frozen=True, kw_only=True)
class LettersSizes:
    train: int = 40
    in_domain: int = 8
    cross_domain: int = 8
    unlabelled: int = 8


def problem(name, part, rng):
    letters = rng.choices(LETTERS, k=3)
    answer = {"part": part} if part else {"answer": letters[-1]}
    return Problem(problem_id=name, prompt=" ".join([*letters, "->"]), answer=answer)


def build_world(directory, *, seed, sizes=None):
    sizes = sizes or LettersSizes()
    world = PlacedWorld(directory, seed)

    def rows(name, count):
        rng = Random(f"letters {seed}: {name}")
        parts = [PARTS[i % 2] if name == "unlabelled" else "" for i in range(count)]
        return [problem(f"{name}-{i}", part, rng) for i, part in enumerate(parts)]

    made_from = {"task": "letters", "seed": seed, "sizes": asdict(sizes)}
    world.build(made_from, lambda: {name: rows(name, n) for name, n in asdict(sizes).items()})
    return world


def settings(world):
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {name: {"path": str(world.problems_path(name))} for name in SETS},
            "verifier": "exact",
        },
        "sampling": {"max_tokens": 2},
        "train": dict(OPTIMIZER),
    }


KIND = WorldKind(
    summary="the last of three letters",
    sets=SETS,
    optimizer=OPTIMIZER,
    strengths={"dph_f": 0.5},
    base_steps=60,
    sizes=LettersSizes,
    build=build_world,
    train_base_model=ByPath("letters_world.base_model:train_base_model"),
    settings=settings,
)
