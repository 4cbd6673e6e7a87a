"""The real world as a kind, known without torch: a language model is asked sums by examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lab.worlds.world import ByPath, World, WorldKind, require_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSizes:
    """Number of problems in each set; ``unlabelled`` is that of each of its two parts.

    ``shots`` are the solved examples before every question.
    """

    train: int = 300
    in_domain: int = 100
    cross_domain: int = 100
    unlabelled: int = 48
    shots: int = 4

    def __post_init__(self) -> None:
        require_sizes(self)


BASE_STEPS = 1
"""Nothing is trained: the base model is the language model as it is."""
SETS = ("in_domain", "cross_domain")
OPTIMIZER: Mapping[str, float] = MappingProxyType({"learning_rate": 5e-6})
"""At 2e-5 GRPO's reward goes up and down, and it forgets sums with a 1-digit number."""
THRESHOLD = 4
"""Of 8 samples of pre-sampling: at temperature 1 hardly a question is answered right more often (of
48 sums none was more than five times, and five at least four times)."""
AT_ONCE = 64
"""Answers that are decoded side by side: what is kept for a token takes 46 KB."""
MAX_TOKENS = 8


def real_settings(world: World) -> dict[str, dict[str, Any]]:
    """Tables ``data`` with the examples, ``sampling``, ``presample`` and ``train``."""
    return {
        "data": {
            "train": str(world.problems_path("train")),
            "sets": {name: {"path": str(world.problems_path(name))} for name in SETS},
            "verifier": "number",
            "shots": {
                "file": str(world.problems_path("shots")),
                "template": "{prompt} = {answer}\n",
                "answer": "shown",
            },
        },
        "sampling": {
            "max_tokens": MAX_TOKENS,
            "stop": ["\n"],
            "max_rows": AT_ONCE,
            "cache_tokens": AT_ONCE * 1024,
        },
        "presample": {"samples": 8, "threshold": THRESHOLD},
        "train": dict(OPTIMIZER),
    }


REAL = WorldKind(
    summary="sums of two 2-digit numbers, across of a 2-digit and a 1-digit one; a real language "
    "model, asked by examples",
    sets=SETS,
    optimizer=OPTIMIZER,
    base_steps=BASE_STEPS,
    sizes=RealSizes,
    build=ByPath("lab.worlds.real.world:build_world"),
    train_base_model=ByPath("lab.worlds.real.base_model:link_base_model"),
    settings=real_settings,
)
