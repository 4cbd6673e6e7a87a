"""The world ``lookup`` as a kind of world: things of training in domain, other things across."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dph.lab.worlds.world import ByPath, World, WorldKind, require_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupSizes:
    """Number of problems in each set."""

    train: int = 160
    in_domain: int = 60
    cross_domain: int = 60

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
            "path": "dph.lab.worlds.lookup.house:House",
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
    build=ByPath("dph.lab.worlds.lookup.world:build_world"),
    train_base_model=ByPath("dph.lab.worlds.lookup.base_model:train_base_model"),
    settings=lookup_settings,
    tiny=LookupSizes(train=16, in_domain=4, cross_domain=4),
    tiny_steps=STEPS,
    budget={"steps": 30, "problems_per_step": 8, "samples": 16, "checkpoint_every": 10},
    contenders=("grpo", "dph_f"),
)
