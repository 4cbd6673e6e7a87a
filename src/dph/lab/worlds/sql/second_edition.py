"""The text-to-SQL world, second edition: less luck in its design, a base that imitates better."""

from collections.abc import Mapping
from typing import Any
from dph.lab.worlds.world import GENTLE
from dph.lab.worlds.sql.world import World
from functools import partial
from dph.lab.worlds.sql.base_model import train_base_model
from dph.lab.worlds.sql.editions import (
    QUESTIONS_WITHOUT_ANSWERS,
    TINY,
    TINY_STEPS,
    Edition,
    WorldSizes,
)
from dph.lab.worlds.sql.imitation import STEPS, teach_by_chances
from dph.lab.worlds.sql.annotators import knowledge_by_part
from dph.lab.worlds.sql.world import build_world
from dph.lab.worlds.world import WorldKind


# What a recipe on the text-to-SQL world says, whatever the method.

MAX_TOKENS = 32
SQL_SETS = ("in_domain", "cross_domain")


def sql_settings(
    world: World, *, optimizer: Mapping[str, float] = GENTLE
) -> dict[str, dict[str, Any]]:
    """Tables ``data``, ``sampling``, ``presample``, and ``train`` with the optimizer."""
    sets = {name: {"path": str(world.problems_path(name))} for name in SQL_SETS}
    arithmetic = {
        "path": str(world.problems_path("arithmetic")),
        "verifier": "number",
        "styles": "dph.lab.worlds.sql.arithmetic:arithmetic_style",
    }
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {**sets, "arithmetic": arithmetic},
            "verifier": "sql",
            "styles": "sql",
            "databases": str(world.databases_directory),
        },
        "sampling": {"max_tokens": MAX_TOKENS},
        "presample": {"samples": 8, "threshold": 7},
        "train": dict(optimizer),
    }


SECOND = Edition(
    number=2,
    schema=3,
    draw_knowledge=knowledge_by_part,
    sizes=WorldSizes(in_domain=300, cross_domain=300),
    unlabelled=QUESTIONS_WITHOUT_ANSWERS,
)


SECOND_EDITION = WorldKind(
    base_steps=STEPS,
    sizes=WorldSizes,
    build=partial(build_world, edition=SECOND),
    train_base_model=partial(train_base_model, teach=teach_by_chances),
    settings=sql_settings,
    tiny=TINY,
    tiny_steps=TINY_STEPS,
)
"""Knowledge is balanced within trained, held-out and cross-domain terms; the base model is taught
by the annotators' own chances."""
