"""Countdown as a kind of world: a row of ``dph.lab.worlds.table``."""

from typing import Any
from dph.lab.worlds.countdown.world import World
from dph.lab.worlds.world import GENTLER
from dph.lab.worlds.countdown.base_model import STEPS, train_base_model
from dph.lab.worlds.countdown.world import WorldSizes, build_world
from dph.lab.worlds.world import WorldKind


# What a recipe on the Countdown world says, whatever the method.

MAX_TOKENS = 18
"""The longest right answer: three steps of five tokens, two commas, the end."""
THRESHOLD = 3
"""Of 8 samples. A search is hardly ever right 7 times of 8 (docs/countdown-world.md)."""
EVALUATED = ("in_domain", "cross_domain")


def countdown_settings(world: World) -> dict[str, dict[str, Any]]:
    """Tables ``data``, ``sampling`` and ``presample``, and how answers without labels compare.

    Stored distributions are kept as they are, and nothing is consolidated: what answers agree on is
    no sign of being right here.
    """
    agreement = "dph.lab.worlds.countdown.steps:same_steps"
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {name: {"path": str(world.problems_path(name))} for name in EVALUATED},
            "verifier": "dph.lab.worlds.countdown.verifier:grade",
            "styles": "dph.lab.worlds.countdown.steps:operator_order",
        },
        "sampling": {"max_tokens": MAX_TOKENS},
        "presample": {"samples": 8, "threshold": THRESHOLD},
        "train": dict(GENTLER),
        "stores": {"broad": {"tilt": 0.0, "agreement": agreement}},
        "self_consistency": {"agreement": agreement},
        "consolidation": {"updates": 0},
    }


COUNTDOWN = WorldKind(
    base_steps=STEPS,
    sizes=WorldSizes,
    build=build_world,
    train_base_model=train_base_model,
    settings=countdown_settings,
)
"""Four small numbers in domain, three larger ones across; two sets."""
