"""The world ``lookup``: sets of questions drawn from one seed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from random import Random

from dph.lab.worlds.lookup.house import OTHERS, PEOPLE, PLACES, TRAINED, answer_of, prompt_of
from dph.lab.worlds.lookup.kind import LookupSizes
from dph.lab.worlds.world import PlacedWorld
from dph.records import Problem

SCHEMA = 1
SETS: Mapping[str, Sequence[str]] = {
    "in_domain": TRAINED,
    "cross_domain": OTHERS,
    "train": TRAINED,
}
"""The things that each set asks for."""


def build_world(directory: Path, *, seed: int, sizes: LookupSizes | None = None) -> PlacedWorld:
    """Write the world into ``directory``; keep it if it is already there and whole.

    Leaves ``train.jsonl``, ``in_domain.jsonl``, ``cross_domain.jsonl`` and ``world.json`` (seed,
    sizes, hashes), which is written last. The same seed and sizes give the same bytes.

    Raises:
        DataError: ``directory`` holds another world or cannot be written.
    """
    sizes = sizes or LookupSizes()
    counts = asdict(sizes)
    made_from = {"task": "lookup", "schema": SCHEMA, "seed": seed, "sizes": counts}
    world = PlacedWorld(directory, seed)
    world.build(
        made_from,
        lambda: {name: _problems(name, of, counts[name], seed) for name, of in SETS.items()},
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
            found.append(
                Problem(
                    problem_id=f"{name}-{len(found):04d}",
                    prompt=prompt_of(thing),
                    answer={**columns, "answer": answer_of(place)},
                )
            )
    return found
