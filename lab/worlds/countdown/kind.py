"""Countdown as a kind of world: four small numbers in domain, three larger ones across."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lab.worlds.world import ByPath, World, WorldKind, require_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class CountdownSizes:
    """Number of puzzles in each set; ``unlabelled`` is that of each of its two parts."""

    train: int = 600
    in_domain: int = 300
    cross_domain: int = 300
    unlabelled: int = 600

    def __post_init__(self) -> None:
        require_sizes(self, "puzzle")


STEPS = 1000
SETS = ("in_domain", "cross_domain")
OPTIMIZER: Mapping[str, float] = MappingProxyType({"learning_rate": 1e-4, "eps": 1e-5})
STRENGTHS: Mapping[str, float] = MappingProxyType(
    {
        "rkl": 0.03,
        "alpha": 3.0,
        "dph_f": 0.3,
        "dph_js": 0.3,
        "dph_js_definition": 1.0,
        "ttrl": 2.0,
        "f_grpo": 1.0,
        "ucpo": 0.2,
        "pass_at_k": 2.0,
        "pkpo": 4.0,
        "differential_smoothing": 0.1,
        "entropy_bonus": 0.03,
        "exact_rkl": 0.1,
        "exact_fkl": 0.1,
    }
)
"""Chosen by the rule of the text-to-SQL world's (lab/studies/countdown)."""
MAX_TOKENS = 18
"""The longest right answer: three steps of five tokens, two commas, the end."""
THRESHOLD = 3
"""Of 8 samples. A search is hardly ever right 7 times of 8 (lab/studies/countdown)."""


def countdown_settings(world: World) -> dict[str, dict[str, Any]]:
    """Tables ``data``, ``sampling`` and ``presample``, and how answers without labels compare."""
    agreement = "lab.worlds.countdown.verifier:same_steps"
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {name: {"path": str(world.problems_path(name))} for name in SETS},
            "verifier": "lab.worlds.countdown.verifier:grade",
            "styles": "lab.worlds.countdown.verifier:operator_order",
        },
        "sampling": {"max_tokens": MAX_TOKENS},
        "presample": {"samples": 8, "threshold": THRESHOLD},
        "train": dict(OPTIMIZER),
        "self_consistency": {"agreement": agreement},
    }


COUNTDOWN = WorldKind(
    summary="Countdown: four small numbers and a target, across three larger ones; a search",
    sets=SETS,
    optimizer=OPTIMIZER,
    strengths=STRENGTHS,
    base_steps=STEPS,
    sizes=CountdownSizes,
    build=ByPath("lab.worlds.countdown.world:build_world"),
    train_base_model=ByPath("lab.worlds.countdown.base_model:train_base_model"),
    settings=countdown_settings,
)
