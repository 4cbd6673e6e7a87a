"""The world ``lookup`` as a kind of world: things of training in domain, other things across."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from dph.records import Problem
from lab.worlds.lookup.house import OTHERS, PEOPLE, PLACES, TRAINED, answer_of, prompt_of
from lab.worlds.world import (
    UNLABELLED,
    ByPath,
    PlacedWorld,
    World,
    WorldKind,
    require_sizes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSizes:
    """Number of problems in each set."""

    train: int = 160
    in_domain: int = 60
    cross_domain: int = 60
    unlabelled: int = 160

    def __post_init__(self) -> None:
        require_sizes(self)


STEPS = 400
SETS = ("in_domain", "cross_domain")
OPTIMIZER: Mapping[str, float] = MappingProxyType({"learning_rate": 5e-4, "eps": 1e-8})
TURN_TOKENS, TOKENS = 6, 24
"""Tokens of a turn and of a trajectory; the longest way takes 13, results included."""
THRESHOLD = 3
"""Of 8 samples: the base model is right in a third of them."""


def lookup_settings(world: World) -> dict[str, dict[str, Any]]:
    """Tables ``data``, ``environment``, ``sampling``, ``presample`` and ``train``."""
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {name: {"path": str(world.problems_path(name))} for name in SETS},
            "verifier": "exact",
        },
        "environment": {
            "path": "lab.worlds.lookup.house:House",
            "form": "plain",
            "hidden": ["answer"],
            "tokens": TOKENS,
            "turns": 4,
        },
        "sampling": {"max_tokens": TURN_TOKENS},
        "presample": {"samples": 8, "threshold": THRESHOLD},
        "train": dict(OPTIMIZER),
    }


LOOKUP = WorldKind(
    summary="questions that need a tool: a base model that mostly guesses learns to ask",
    sets=SETS,
    optimizer=OPTIMIZER,
    base_steps=STEPS,
    sizes=LookupSizes,
    build=ByPath("lab.worlds.lookup.kind:build_world"),
    train_base_model=ByPath("lab.worlds.lookup.base_model:train_base_model"),
    settings=lookup_settings,
    tiny=LookupSizes(train=16, in_domain=4, cross_domain=4, unlabelled=8),
    overlaps=("cross_domain",),  # the place, which no text tells, is drawn for every question
    tiny_steps=STEPS,
    budget={"steps": 30, "problems_per_step": 8, "samples": 16, "checkpoint_every": 10},
    contenders=("grpo", "dph_f"),
)


# The world ``lookup``: sets of questions drawn from one seed.

SCHEMA = 1
THINGS: Mapping[str, Sequence[str]] = {
    "in_domain": TRAINED,
    "cross_domain": OTHERS,
    "train": TRAINED,
    UNLABELLED: OTHERS,
}
"""The things that each set asks for. Those of ``unlabelled`` have no answers."""


def build_world(directory: Path, *, seed: int, sizes: LookupSizes | None = None) -> PlacedWorld:
    """Write the world into ``directory``; keep it if it is already there and whole.

    Leaves ``train.jsonl``, ``in_domain.jsonl``, ``cross_domain.jsonl``, ``unlabelled.jsonl`` and
    ``world.json`` (seed, sizes, hashes), which is written last. The same seed and sizes give the
    same bytes.

    Raises:
        DataError: ``directory`` holds another world or cannot be written.
    """
    sizes = sizes or LookupSizes()
    counts = asdict(sizes)
    made_from = {"task": "lookup", "schema": SCHEMA, "seed": seed, "sizes": counts}
    world = PlacedWorld(directory, seed)
    world.build(
        made_from,
        lambda: {name: _problems(name, of, counts[name], seed) for name, of in THINGS.items()},
    )
    return world


def _problems(name: str, things: Sequence[str], count: int, seed: int) -> list[Problem]:
    """Questions of a set; places and owners come as often as each other, up to one."""
    random = Random(f"lookup world {seed}: {name}")
    found: list[Problem] = []
    while len(found) < count:
        kinds = list(product(things, PLACES))
        random.shuffle(kinds)
        for thing, place in kinds[: count - len(found)]:
            columns = {"thing": thing, "place": place, "owner": random.choice(PEOPLE)}
            gold = {} if name == UNLABELLED else {"answer": answer_of(place)}
            found.append(
                Problem(
                    problem_id=f"{name}-{len(found):04d}",
                    prompt=prompt_of(thing),
                    answer={**columns, **gold},
                )
            )
    return found
